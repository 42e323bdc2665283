# Reads a worker's facts in one call, with sh and coreutils only. Called as
#   exec sh -c 'tt_s=$(head -c BYTES); eval "$tt_s"' tpu-tui NONCE
# with this script on stdin, after a line of settings (tt_root tt_versions tt_code tt_job) and the prelude
# (tui/ssh/exec/script_prelude.sh), and before the tt_job bytes of a job's environment (tui.runs.launch.job_script).
# It changes nothing on the worker.

tt_nonce=$1
# Where this login comes from, as this worker's sshd saw it.
origin() { tt_w=${SSH_CONNECTION:-}; [ -z "$tt_w" ] || say origin "${tt_w%% *}"; }

clock() { say clock "$(date +%s.%N)"; }

disk() {
  tt_w=$(df -k --output=avail,size,iavail,itotal -- "$2" 2>/dev/null | tail -n 1) || return
  [ -w "$2" ] || tt_w="$tt_w closed"
  set -- "$1" $tt_w && say disk "$@"
}

# Sets tt_v to a directory, or to its nearest parent that exists.
existing() {
  tt_v=$1
  case $tt_v in /*) ;; *) tt_v=/ ;; esac
  while [ ! -e "$tt_v" ]; do tt_v=${tt_v%/*}; tt_v=${tt_v:-/}; done
}

memory() {
  while read -r tt_k tt_v tt_w; do
    case $tt_k in MemTotal:) say memory total "$tt_v" ;; MemAvailable:) say memory free "$tt_v" ;; esac
  done </proc/meminfo
}

load() { read -r tt_w tt_v </proc/loadavg && say load "$tt_w" "$(nproc)"; }

# Runs that are alive here: a leader with the recorded start time, and no recorded end.
runs() {
  for tt_d in "$tt_root"/runs/*/*; do
    [ -s "$tt_d/pid" ] && [ ! -s "$tt_d/status" ] || continue
    read -r tt_p tt_s <"$tt_d/pid"
    case $tt_p in '' | *[!0-9]*) continue ;; esac
    lives "$tt_p" && [ "$tt_start" = "$tt_s" ] || continue
    tt_tag=; [ -s "$tt_d/tag" ] && read -r tt_tag <"$tt_d/tag"
    tt_w=${tt_d%/*}
    say run "${tt_w##*/}" "${tt_d##*/}" "$tt_p" "$tt_tag"
  done
}

devices() {
  find_devices
  set -- $tt_real
  say devices "$#" $tt_given
}

owners() {
  tt_lock=${TPU_TUI_LOCKFILE:-/tmp/libtpu_lockfile}
  tt_w=; [ -w "$tt_lock" ] && tt_w=writable
  if [ -e "$tt_lock" ]; then say lock "$(stat -c %U "$tt_lock")" "${tt_w:-closed}" "$tt_lock"; else tt_lock=; fi
  [ -n "$tt_real$tt_lock" ] || return 0
  find_owners $tt_real ${tt_lock:+"$tt_lock"}
  printf '%s\n' "$tt_found" | while read -r tt_p tt_f; do
    case $tt_p in '') continue ;; hidden) say hidden; continue ;; esac
    lives "$tt_p" || continue
    read -r tt_up tt_w </proc/uptime
    tt_tag=; while read -r tt_k tt_v tt_w tt_s; do
      [ "$tt_k $tt_v $tt_w" = 'Max file locks' ] && { set -- $tt_s; tt_tag=$1; }
    done <"/proc/$tt_p/limits" 2>/dev/null
    say owner "$tt_p" "$(stat -c %U "/proc/$tt_p" 2>/dev/null)" "$((${tt_up%.*} - tt_start / 100))" "${tt_tag:--}" "$tt_f" "$(command_of "$tt_p")"
  done
}

# The last synced tree: its hash, and whether its files still match their checksums.
code() {
  cd "$tt_root/code" 2>/dev/null || return 0
  tt_w=$(ls -t -- *.sha256 2>/dev/null | head -n 1)
  [ -d "${tt_w%.sha256}" ] && [ -n "$tt_w" ] || return 0
  ( [ ! -s "$tt_w" ] || { cd "${tt_w%.sha256}" && timeout 5 sha256sum --status -c "../$tt_w"; } ) >/dev/null 2>&1
  case $? in 0) tt_v=same ;; 124) tt_v=slow ;; *) tt_v=changed ;; esac
  say code "${tt_w%.sha256}" "$tt_v"
}

# Packages are found by their metadata: importing them costs ten times the start of an interpreter.
tt_ask='
import os, sys
names = ("torch", "torch_xla", "libtpu", "jax", "jaxlib")
found = {}
for place in sys.path:
    try:
        entries = os.listdir(place) if place else ()
    except OSError:
        continue
    for entry in sorted(entries):
        stem, dot, kind = entry.rpartition(".")
        name = stem.split("-")[0].lower()
        if kind not in ("dist-info", "egg-info") or name not in names or name in found:
            continue
        for file in ("METADATA", "PKG-INFO"):
            try:
                with open(os.path.join(place, entry, file), "rb") as lines:
                    for line in lines:
                        if line.startswith(b"Version:"):
                            found[name] = line[8:].decode("utf-8", "replace")
                            break
            except OSError:
                pass
found["python"] = "%d.%d.%d" % sys.version_info[:3]
for name, value in found.items():
    text = " ".join(value.split())[:120].encode("ascii", "backslashreplace").decode()
    print("\n@%s version %s %s" % (sys.argv[1], name, text))
'

# Queries the interpreter that a login finds, or for a job the one that its command names. Directories of this
# session's PATH that the start-up files dropped stay in front, as for a run.
versions() {
  tt_w=$(printf %s "$tt_env" | timeout -k 1 15 sh -c '
    tt_old=$PATH tt_n=$1 tt_q=$2 tt_v=$3 tt_p=python3
    { [ -r /etc/profile ] && . /etc/profile; [ -r "$HOME/.profile" ] && . "$HOME/.profile"; } >/dev/null 2>&1
    tt_new=; IFS=:; set -f
    for tt_w in $tt_old; do case ":$PATH:" in *":$tt_w:"*) ;; *) tt_new=$tt_new$tt_w: ;; esac; done
    unset IFS; set +f; PATH=$tt_new$PATH; export PATH
    if [ "$tt_v" = job ]; then
      tt_check=1; eval "$(cat)"
      case ${1##*/} in python | python[0-9]*) tt_p=$1 ;; esac
    fi
    command -v -- "$tt_p" >/dev/null || { printf "@%s python missing %s\n" "$tt_n" "$tt_p"; exit 0; }
    exec "$tt_p" -c "$tt_q" "$tt_n"' sh "$tt_nonce" "$tt_ask" "$tt_versions" 2>&1 |
    head -c 65536)
  case $tt_w in
    *"@$tt_nonce "*) printf '%s\n' "$tt_w" ;;
    *) say python failed "$(printf %s "$tt_w" | tail -n 1 | head -c 200)" ;;
  esac
}

tt_env=$(head -c "$tt_job")
facts() {
  clock
  origin
  existing "$HOME"
  disk home "$tt_v"
  case $tt_root in "$HOME" | "$HOME"/*) ;; *)
    existing "$tt_root"
    disk run_root "$tt_v" ;;
  esac
  disk tmp /tmp
  memory
  load
  runs
  devices
  owners
  [ -z "$tt_code" ] || ( code )
  [ -z "$tt_versions" ] || versions
  clock
  say end
}

# One write: otherwise each answer would be a packet, and wake up both ends.
tt_w=$(facts)
printf '%s\n' "$tt_w"
