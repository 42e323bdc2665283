# The beginning of every script that runs on a worker (tui.ssh.exec.script_protocol.load_script): sh, coreutils and
# util-linux only. A line of settings, tt_root among them, comes before it and the script itself after it.
# All variables begin with tt_, because a variable that the login environment exports is changed for a job too.

case $tt_root in
  '~') tt_root=$HOME ;;
  '~/'*) tt_root=$HOME/${tt_root#'~/'} ;;
  /*) ;;
  *) tt_root=$HOME/$tt_root ;;
esac

# Answers are lines that begin with @NONCE; anything else is the output of some start-up file.
say() { printf '@%s %s\n' "$tt_nonce" "$*"; }

# State, group, session and start time of process $1, from the end of its stat line. Its name, of at most 15 bytes, may
# hold anything; the first line is short if it holds a newline.
look() {
  tt_stat=
  { IFS= read -r tt_stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  [ "${#tt_stat}" -gt 60 ] || tt_stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  tt_stat=${tt_stat##*') '}
  tt_state=${tt_stat%% *}
  set -f; set -- $tt_stat; set +f
  tt_group=$3 tt_session=$4 tt_start=${20}
}

# Whether process $1 is alive and no zombie.
lives() { look "$1" && case $tt_state in Z | X | x) return 1 ;; esac; }

# A process's command line, on one line of an answer.
command_of() { printf %s "$(tr '\0\n\r\t' '\n   ' <"/proc/$1/cmdline" 2>/dev/null | head -c 200)" | tr '\n' ' '; }

# The TPU's device files in tt_real; tt_given says that TPU_TUI_DEVICES names them.
find_devices() {
  tt_given= tt_real=
  if [ -n "${TPU_TUI_DEVICES+given}" ]; then tt_given=given tt_w=$(printf %s "$TPU_TUI_DEVICES" | tr ':,' '  ')
  else tt_w='/dev/accel* /dev/vfio/*'; fi
  for tt_w in $tt_w; do [ -e "$tt_w" ] && [ "$tt_w" != /dev/vfio/vfio ] && tt_real="$tt_real $tt_w"; done
  return 0
}

# Run with sh -c, directly or under sudo -n: prints the pid and file of every owner, or `hidden -`.
tt_owner_script='
for p in /proc/[0-9]*; do
  [ -r "$p/fd" ] && [ -x "$p/fd" ] || { [ -d "$p/fd" ] && h=1; continue; }
  for f in "$p"/fd/*; do for d in "$@"; do
    [ "$f" -ef "$d" ] && { echo "${p#/proc/} $d"; continue 3; }
  done; done
done
[ -z "$h" ] || echo hidden -'

# Sets tt_found to the processes that have any of these files open, a line of pid and file each; its last line is
# `hidden -` if some processes cannot be inspected, not even through sudo -n.
find_owners() {
  tt_found=$(sh -c "$tt_owner_script" sh "$@" 2>/dev/null)
  case $tt_found in
    *hidden*) if sudo -n true </dev/null >/dev/null 2>&1; then
      tt_found=$(sudo -n sh -c "$tt_owner_script" sh "$@" 2>/dev/null </dev/null)
    fi ;;
  esac
}
