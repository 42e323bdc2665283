# What runs on a worker: sh, coreutils and util-linux only. Called as
#   exec sh -c 'tt_s=$(head -c BYTES); eval "$tt_s"' tpu-tui VERB RUN WORKER NONCE ARGS...
# with this script on stdin, after a line of settings (tt_root tt_bar tt_lease tt_sync tt_pace) and the prelude
# (tui/ssh/exec/script_prelude.sh), and before the verb's data.
#
# A run's directory, runs/RUN/WORKER, holds
#   command login worker.sh run.json    the job's text, its login environment, this script, the run's record
#   attempt place boot tag cgroup oom   which attempt this is, on which worker and boot; marks of its processes
#   alive card pid code why log         held open by the supervisor (`supervise`), which has `alive` locked while it lives
#   container                           the label of the containers that the job runs in, if it does
#   going armed|running|aborted cancel  how far the launch came, and whether a stop was asked for
#   terminated                          process and start time of each that was sent TERM
#   room|full noreserve trouble status  whether the disk has room; messages of the supervisor; how the run ended
# Beside it lie keeper-WORKER, stopped-WORKER, on-end-WORKER and, from further attempts, attempts/N/WORKER.
# A verb is a function of that name, at the end of its section. Functions return values in variables, because a
# subshell costs a fork.

tt_verb=$1 tt_run=$2 tt_worker=$3 tt_nonce=$4
shift 4
tt_d=$tt_root/runs/$tt_run/$tt_worker
tt_tab=$(printf '\t')
tt_reserve=33554432      # bytes of room reserved ahead of the logger: dd's count times its block
tt_blocks=512
tt_last=1048576          # bytes kept beyond that for what is still in the pipe when the job has ended on a full disk
tt_tag=
read -r tt_boot </proc/sys/kernel/random/boot_id
umask 077

# --- small tools ------------------------------------------------------------------------------------------------------

say_aside() { say "$@" >&2; }

# Set tt_now to the hundredths of a second since boot, without a fork.
now() { read -r tt_now tt_rest </proc/uptime; tt_now=${tt_now%.*}${tt_now#*.}; }

# Set variable $1 to the first line of file $2; empty if there is none.
read_line() { eval "$1="; [ ! -s "$2" ] || { IFS= read -r "$1" <"$2"; } 2>/dev/null || :; }

# Print the text of an error as one short line, for an answer.
brief() { printf %s "$1" | tr '\n\r\t' '   ' | head -c 400; }

# Print the lines of stdin that match a basic regular expression; coreutils have no grep.
pick() { LC_ALL=C nl -w1 -s"$tt_tab" -bp"$1" | cut -s -f2-; }

# --- processes of a run -----------------------------------------------------------------------------------------------

# Set tt_tag to the run's tag; empty if it is not known.
read_tag() { [ -n "$tt_tag" ] || read_line tt_tag "$tt_d/tag"; }

# Call $1 with each word of $2, the output of `head -v` on files of /proc. tt_p is then the process of the word's file.
by_process() {
  tt_p= tt_call=$1
  for tt_w in $2; do
    case $tt_w in
      '==>' | '<==') ;;
      /proc/*) tt_p=${tt_w#/proc/}; tt_p=${tt_p%/*} ;;
      *) "$tt_call" "$tt_w" ;;
    esac
  done
}

# Set tt_members to every live process of the run. Most have the tag, a limit that a process inherits and can only
# lower. If none has it, those with a different limit are examined; with $1 = all, every process is.
members() {
  tt_members= tt_which=
  read_tag
  # head continues if a process vanishes in between; tail would not.
  by_process add_by_limit "$(head -v -c 4096 /proc/[0-9]*/limits 2>/dev/null |
    pick '^==> /proc/[0-9]*/limits <==$\|^Max file locks  *[0-9]')"
  [ "${1:-}" != all ] && [ -n "$tt_tag" ] || tt_which='[0-9]*'
  [ -n "$tt_members" ] && [ "${1:-}" != all ] || [ -z "$tt_which" ] || add_unmarked
}

add_by_limit() {
  case $1 in
    "$tt_tag") add_member "$tt_p" ;;
    ???????????????????) ;;  # the tag of another run
    [0-9]*) tt_which="${tt_which% $tt_p} $tt_p" ;;
  esac
}

add_member() {
  case " $tt_members " in *" $1 "*) return 0 ;; esac
  lives "$1" && tt_members="$tt_members $1"
  return 0
}

# Set tt_files to the files $1 of the processes in tt_which (pids, or a pattern).
files_of() {
  set -f
  tt_files=
  for tt_w in $tt_which; do tt_files="$tt_files /proc/$tt_w/$1"; done
  set +f
}

# Add the processes in tt_which that have the run's variable, are in the leader's session, or have the job's output
# open. A process that has none of these nor the tag is not found, unless the run has a cgroup.
add_unmarked() {
  add_marked "[0-9]*/$tt_run/$tt_worker/"
  leader
  [ -z "$tt_leader" ] || add_member "$tt_leader"
  files_of stat
  [ -z "$tt_session_of" ] ||
    for tt_p in $(cat $tt_files 2>/dev/null | tr '\t\\' ' _' |
      pick "^[0-9][0-9]* (.*) [A-Za-z] [0-9]* [0-9]* $tt_session_of " | cut -d' ' -f1); do
      lives "$tt_p" && [ "$tt_session" = "$tt_session_of" ] && add_member "$tt_p"
    done
  [ -z "$tt_lp" ] || for tt_p in $(holders); do add_member "$tt_p"; done
}

# Add the processes in tt_which whose mark begins with $1, a pattern.
add_marked() {
  tt_pattern="^TPU_TUI_MARK=$1"
  files_of environ
  by_process add_by_mark "$(head -v -c 2097152 $tt_files 2>/dev/null | lines_of_strings |
    pick "^==> /proc/[0-9]*/environ <==\$\\|$tt_pattern")"
}

# Check the process's own environment: one of another user may contain what looks like that of any process.
add_by_mark() {
  case "$1 $tt_members " in
    *" $tt_p "*) ;;
    TPU_TUI_MARK=*) [ -z "$(marks_of "$tt_p" | pick "$tt_pattern")" ] || add_member "$tt_p" ;;
  esac
}

# Print strings that end with NUL as lines that `pick` can search.
lines_of_strings() { LC_ALL=C tr '\0\t\\' '\n _'; }

marks_of() { lines_of_strings 2>/dev/null <"/proc/$1/environ" | pick '^TPU_TUI_MARK='; }

# Print the processes in tt_which that have the pipe to the logger open, except the supervisor's own and those older than
# the leader, e.g. a service manager that was handed the pipe.
holders() {
  is_intact && [ -n "$tt_main" ] || return 0
  for tt_p in $(cat "/proc/$tt_main/task/$tt_main/children" 2>/dev/null); do
    [ -f "/proc/$tt_p/fd/7" ] && [ "/proc/$tt_p/fd/7" -ef "/proc/$tt_main/fd/7" ] || continue
    case $(readlink "/proc/$tt_p/fd/0") in
      pipe:*)
        files_of 'fd/*'
        for tt_w in $tt_files; do
          [ "$tt_w" -ef "/proc/$tt_p/fd/0" ] || continue
          tt_v=${tt_w#/proc/}; tt_v=${tt_v%%/*}
          [ "/proc/$tt_v/fd/8" -ef "$tt_d/alive" ] || { look "$tt_v" && [ "$tt_start" -ge "$tt_ls" ] && echo "$tt_v"; }
        done ;;
    esac
  done
}

# Whether a process of the run is left; one that forks and exits fast enough is seen in the cgroup only.
has_processes() {
  members "$@"
  [ -z "$tt_members" ] || return 0
  read_line tt_cgroup "$tt_d/cgroup"
  [ -n "$tt_cgroup" ] && read -r tt_w tt_v 2>/dev/null <"$tt_cgroup/cgroup.events" && [ "$tt_w $tt_v" = 'populated 1' ]
}

# Set tt_leader to the leader's pid, empty if it is gone or its pid was reused, and tt_session_of to its session, empty
# if that number was reused.
leader() {
  tt_leader= tt_session_of= tt_lp=
  [ ! -s "$tt_d/pid" ] || read -r tt_lp tt_ls <"$tt_d/pid"
  [ -n "$tt_lp" ] || return 0
  tt_session_of=$tt_lp tt_start=$tt_ls
  ! lives "$tt_lp" || tt_leader=$tt_lp
  [ "$tt_start" = "$tt_ls" ] || tt_leader= tt_session_of=
}

# --- ending them ------------------------------------------------------------------------------------------------------

# Send signal $1 to the leader's group at once, then to the others. Each process gets only one TERM, whatever ends the
# run: one that saves at its first TERM may take a second one for impatience. They are recorded before it is sent.
signal_all() {
  leader
  tt_known= tt_new= tt_others=
  [ "$1" != TERM ] || tt_known=" $(cat "$tt_d/terminated" 2>/dev/null | tr '\n' ' ')"
  case $tt_known in *" $tt_leader $tt_ls;"*) tt_leader= ;; esac
  for tt_p in $tt_members; do
    look "$tt_p" || continue
    case $tt_known in *" $tt_p $tt_start;"*) continue ;; esac
    tt_new="$tt_new $tt_p $tt_start;"
    [ -n "$tt_leader" ] && [ "$tt_group" = "$tt_leader" ] || tt_others="$tt_others $tt_p"
  done
  [ "$1" != TERM ] || [ -z "$tt_new" ] || { echo "$tt_new" >>"$tt_d/terminated"; } 2>/dev/null
  [ -n "$tt_leader" ] && kill -s "$1" -- "-$tt_leader" 2>/dev/null
  [ -n "$tt_others" ] && kill -s "$1" $tt_others 2>/dev/null
  return 0
}

# Kill the run's cgroup at once, however fast its processes fork.
kill_cgroup() {
  read_line tt_cgroup "$tt_d/cgroup"
  [ -z "$tt_cgroup" ] || { echo 1 >"$tt_cgroup/cgroup.kill"; } 2>/dev/null
}

# End every process of the run: TERM, grace ($1, tenths of a second), KILL, then freeze and kill what is left. With
# $2 = all, unmarked processes of the run are searched among all processes.
# A stopped process cannot fork, so the scan is repeated until two scans agree.
sweep() {
  has_processes "$2" || return 0
  signal_all TERM
  signal_all CONT
  now; tt_until=$((tt_now + $1 * 10))
  while has_processes && now && [ "$tt_now" -lt "$tt_until" ]; do sleep 0.1; done
  has_processes "$2" || return 0
  signal_all KILL
  kill_cgroup
  tt_empty=0 tt_rounds=0
  while [ "$tt_empty" -lt 2 ] && [ "$tt_rounds" -lt 200 ]; do
    tt_rounds=$((tt_rounds + 1))
    members
    if [ -z "$tt_members" ]; then tt_empty=$((tt_empty + 1)); continue; fi
    tt_empty=0 tt_before=$tt_members
    kill -s STOP $tt_members 2>/dev/null
    members
    [ "$tt_members" = "$tt_before" ] || [ "$tt_rounds" -gt 20 ] && kill -s KILL $tt_members 2>/dev/null
    [ "$tt_rounds" -gt 3 ] && sleep 0.05
  done
  [ "$tt_empty" -ge 2 ]
}

# End and remove the run's container, if it has one, after a grace of $1 seconds: it is a process of Docker's daemon, and
# `docker run` may have ended without it (docker/cli#5241, moby/moby#9098). Fails if it may be left, with the reason in
# tt_why. A second removal at the same time fails, so the list of containers decides.
remove_container() {
  read_line tt_line "$tt_d/container"
  [ -n "$tt_line" ] || return 0
  tt_why=$(exec 8>&- 9>&- 2>&1 </dev/null
    timeout -s KILL $(($1 + 30)) sh -c '. "$1/login"
      for tt_w in 1 2 3 4 5 6; do
        tt_ids=$(docker container ls -aq --filter "label=$2") || exit
        [ -n "$tt_ids" ] || exit 0
        [ "$tt_w" = 1 ] || sleep 0.5
        docker stop -t "$3" $tt_ids >/dev/null 2>&1
        tt_why=$(docker rm -f $tt_ids 2>&1 >/dev/null)
      done
      echo "$tt_why"
      exit 1' sh "$tt_d" "$tt_line" "$1") && return
  tt_why=${tt_why:-docker does not answer}
  return 1
}

alive() { [ -e "$tt_d/alive" ] && ! flock -n -s "$tt_d/alive" true; }

# --- a live supervisor, whatever happens to the run's directory -------------------------------------------------------

# Write what identifies the supervisor: its pid, the run's attempt, place and marks; root; cgroup; then the run's record.
write_card() {
  read_line tt_w oom
  read_line tt_at attempt
  read_line tt_place place
  read_line tt_cgroup cgroup
  {
    printf '%s\n' "$$ $tt_tag $tt_at $tt_boot $tt_place $tt_w $tt_run $tt_worker" "$tt_root" "$tt_cgroup"
    cat run.json
  } >card
}

# Set tt_supervisors to this user's supervisor processes of a run and a worker (patterns $1, $2).
supervisors() {
  tt_supervisors=
  by_process add_supervisor "$(head -v -c 4096 /proc/[0-9]*/cmdline 2>/dev/null | LC_ALL=C tr '\0\t\\' ' __' |
    pick "^==> /proc/[0-9]*/cmdline <==\$\\|^sh \\./worker\\.sh supervise $1 $2 ")"
}

# Check the process's own command line, without a fork: that of another one may contain what looks like it. A shell's
# `read` keeps or drops the NULs between the arguments.
add_supervisor() {
  [ "$1" = supervise ] && [ -O "/proc/$tt_p" ] || return 0
  tt_words=
  { IFS= read -r tt_words <"/proc/$tt_p/cmdline"; } 2>/dev/null
  case $tt_words in
    sh?./worker.sh?supervise?* | sh./worker.shsupervise*) tt_supervisors="$tt_supervisors $tt_p" ;;
  esac
}

# Read the card of a supervisor's process $1 into tt_sup and tt_its_NAME. Fails for an earlier version, which has none.
read_card() {
  [ -f "/proc/$1/fd/4" ] && [ -f "/proc/$1/fd/8" ] || return 1
  {
    IFS=' ' read -r tt_sup tt_its_tag tt_its_attempt tt_its_boot tt_its_place tt_its_oom tt_its_run tt_its_worker
    IFS= read -r tt_its_root
    IFS= read -r tt_its_cgroup
  } 2>/dev/null <"/proc/$1/fd/4" || return 1
  case $tt_sup in '' | *[!0-9]*) return 1 ;; esac
  [ "/proc/$tt_sup/fd/8" -ef "/proc/$1/fd/8" ] || tt_sup=$1
}

# Whether the run's directory has the files that describe it, with the lock that its supervisor holds. Sets tt_main to
# the supervisor if it lives and is not of an earlier version.
is_intact() {
  tt_main=
  [ -e "$tt_d/alive" ] && [ -s "$tt_d/tag" ] && [ -s "$tt_d/boot" ] && [ -s "$tt_d/attempt" ] || return 1
  [ -s "$tt_d/card" ] && read -r tt_main tt_w <"$tt_d/card" && [ -f "/proc/$tt_main/fd/8" ] || { tt_main=; return 0; }
  [ "/proc/$tt_main/fd/8" -ef "$tt_d/alive" ] || { tt_main=; return 1; }
}

# Find a run that is alive although its directory was removed, emptied or moved, by its supervisor's process.
# Sets tt_unnamed to a supervisor of an earlier version, whose directory is not known.
find_alive() {
  tt_unnamed= tt_main=
  supervisors "$tt_run" "$tt_worker"
  for tt_v in $tt_supervisors; do
    read_card "$tt_v" || { tt_unnamed=$tt_v; continue; }
    tt_unnamed= tt_tag=$tt_its_tag tt_root=$tt_its_root tt_d=$tt_its_root/runs/$tt_run/$tt_worker
    is_intact || give_back "$tt_sup"
    tt_main=$tt_sup
    return 0
  done
}

# Restore the missing files of tt_d from the descriptors and the card of process $1.
give_back() {
  mkdir -p "$tt_d" 2>/dev/null && cd "$tt_d" || return 1
  [ alive -ef "/proc/$1/fd/8" ] || link_to "/proc/$1/fd/8" alive
  [ -e log ] || [ -L log ] || link_to "/proc/$1/fd/7" log
  if [ ! -s pid ]; then
    { read -r tt_w && [ -n "$tt_w" ] && put pid "$tt_w"; } <"/proc/$1/fd/5"
  fi
  { read -r tt_w && [ -n "$tt_w" ] && put code "$tt_w"; } <"/proc/$1/fd/6"
  put boot "$tt_its_boot"
  put place "$tt_its_place"
  put attempt "$tt_its_attempt"
  put oom "$tt_its_oom"
  [ -z "$tt_its_cgroup" ] || put cgroup "$tt_its_cgroup"
  [ -s card ] || { cat "/proc/$1/fd/4" >"card.$$" && mv "card.$$" card; }
  [ -s run.json ] || { tail -n +4 "/proc/$1/fd/4" >"run.json.$$" && mv "run.json.$$" run.json; }
  [ -e aborted ] || : >running
  : >going
  put tag "$tt_its_tag"
} 2>/dev/null

# Link an open file to a name: a hard link where it has a name left, else a symlink that works while it is open.
link_to() { { ln -L "$1" "$2.$$" || ln -s "$1" "$2.$$"; } && mv -T "$2.$$" "$2"; rm -f "$2.$$"; }

put() { [ -s "$1" ] || { echo "$2" >"$1.$$" && mv "$1.$$" "$1"; }; }

# Restore the permissions of the run's directories, which a job may have removed.
open_up() {
  for tt_w in "$tt_root" "$tt_root/runs" "$tt_root/runs/$tt_run" "$tt_d"; do
    [ ! -d "$tt_w" ] || { [ -r "$tt_w" ] && [ -w "$tt_w" ] && [ -x "$tt_w" ]; } || chmod u+rwx "$tt_w" 2>/dev/null
  done
}

# Restore the directory of this supervisor's run, unless the whole root was removed: a follower then reads the end from
# the files that are still open.
restore() {
  IFS=' ' read -r tt_me tt_w </proc/self/stat
  open_up
  [ -d "$tt_root" ] || return 0
  is_intact && [ "$tt_d/alive" -ef /proc/self/fd/8 ] || { read_card "$tt_me" && give_back "$tt_me"; }
}

# Set tt_log to the log to read: the one that a live supervisor writes, whatever is in its place.
choose_log() {
  tt_log=log
  [ -z "$tt_main" ] || [ ! -f "/proc/$tt_main/fd/7" ] || tt_log=/proc/$tt_main/fd/7
  [ -r "$tt_log" ] || chmod u+rw "$tt_log" 2>/dev/null
  # A fifo or a device that a job put there would block.
  [ -f "$tt_log" ] || tt_log=/dev/null
}

# --- the worker: its name, lock and devices ---------------------------------------------------------------------------

# Set tt_place to the name of this worker among those that share the directory: its host name, and this login's address
# and port.
place() {
  read -r tt_w </proc/sys/kernel/hostname
  set -- ${SSH_CONNECTION:-}
  tt_place=$tt_w-${3:-local}-${4:-$tt_worker}
  case $tt_place in *[!A-Za-z0-9._-]*) tt_place=$(printf %s "$tt_place" | tr -c 'A-Za-z0-9._-' '-') ;; esac
}

# Hold the worker's lock for this run. Refuses while another run is alive here.
lock_worker() {
  tt_lock=$tt_root/lock-$tt_place
  exec 9>>"$tt_lock" || refuse "directory cannot write in $tt_root"
  tt_o= tt_ow=
  read -r tt_o tt_ow <"$tt_lock"
  if flock -n 9; then
    # A run with a recorded end has left no process.
    [ -n "$tt_o" ] && [ -s "$tt_root/runs/$tt_o/$tt_ow/status" ] || refuse_beside_others
    printf '%s %s\n' "$tt_run" "$tt_worker" >"$tt_lock"
    return 0
  fi
  tt_lp= tt_c=
  tt_od=$tt_root/runs/$tt_o/$tt_ow
  if [ -s "$tt_od/pid" ]; then read -r tt_lp tt_ls <"$tt_od/pid"
  else
    supervisors "${tt_o:-[^ ]*}" "${tt_ow:-[^ ]*}"
    for tt_v in $tt_supervisors; do read_card "$tt_v" && read -r tt_lp tt_ls <"/proc/$tt_v/fd/5" && break; done
  fi
  [ -z "$tt_lp" ] || tt_c=$(command_of "$tt_lp")
  refuse "busy run ${tt_o:-?} pid ${tt_lp:-?} command ${tt_c:-not started yet}"
}

# Refuse if a run is alive whose directory and lock were removed.
refuse_beside_others() {
  supervisors '[^ ]*' '[^ ]*'
  for tt_v in $tt_supervisors; do
    read_card "$tt_v" && [ "$tt_its_place $tt_its_root" = "$tt_place $tt_root" ] || continue
    read -r tt_lp tt_ls <"/proc/$tt_v/fd/5"
    refuse "busy run $tt_its_run pid ${tt_lp:-?} command $(command_of "${tt_lp:-self}")"
  done
  tt_members= tt_which='[0-9]*'
  make_mark
  add_marked "[0-9]*/[^/]*/[^/]*/${tt_mark#*/*/*/}\$"
  for tt_p in $tt_members; do
    [ -O "/proc/$tt_p" ] || continue
    tt_o=$(marks_of "$tt_p" | cut -d/ -f2)
    refuse "busy run ${tt_o:-?} pid $tt_p command $(command_of "$tt_p")"
  done
}

# Find the owners of the devices: pairs of words "PID DEVICE" in tt_owners; tt_hidden: some processes cannot be seen.
owners() {
  tt_owners= tt_hidden=
  find_devices
  [ -z "$tt_real" ] && return 0
  find_owners $tt_real
  case $tt_found in *hidden*) tt_hidden=1 tt_found=${tt_found%hidden*} ;; esac
  tt_owners=$tt_found
}

check_devices() {
  owners
  [ -n "$tt_hidden" ] && say "note device other users' processes cannot be seen here, so whether the TPU is free is unknown"
  [ -z "$tt_owners" ] && return 0
  set -- $tt_owners
  refuse "device $2 pid $1 user $(stat -c %U "/proc/$1" 2>/dev/null) command $(command_of "$1")"
}

# --- launch -----------------------------------------------------------------------------------------------------------

# Remove what this launch made, and put an earlier attempt's directory back. Called at most once.
unmake() {
  trap '' PIPE
  remove_cgroup
  cd /
  # A stop may write into the directory meanwhile, which then cannot be removed at once.
  for tt_w in 1 2 3 4 5; do rm -rf "$tt_d" 2>/dev/null && break; done
  tt_w=$tt_root/runs/$tt_run/keeper-$tt_worker
  # Fails if another keeper's launch took the place meanwhile: the earlier attempt stays aside.
  if [ -n "$tt_aside" ]; then mv -T "$tt_aside" "$tt_d" 2>/dev/null; else rm -f "$tt_w" "$tt_w.new"; fi
  rmdir "$tt_root/runs/$tt_run" 2>/dev/null
  return 0
}

refuse() {
  [ -n "$tt_made$tt_aside" ] && unmake
  say "refused $*"
  exit 3
}

# Set tt_oom to the machine's out-of-memory kills since its boot.
oom_kills() {
  tt_oom=$(cat /proc/vmstat)
  tt_oom=${tt_oom##*oom_kill }
  tt_oom=${tt_oom%%[!0-9]*}
}

# Refuse a worker that lacks a program, which would fail later without naming it.
check_programs() {
  for tt_w in cat chmod cksum cp cut date dd env fallocate flock head ln mkdir mkfifo mv nl od prlimit readlink rm \
    rmdir setsid sleep stat sync tail timeout tr truncate; do
    command -v "$tt_w" >/dev/null || refuse "program $tt_w"
  done
}

# Choose the resource-limit tag, which every process of the run inherits: the limit on file locks, unused by the kernel.
# Without privilege it can only be lowered, so inside another run the new tag is a little below that run's.
choose_tag() {
  set -- $(od -An -N8 -tu4 /dev/urandom)
  tt_tag=$(((($1 & 0x1fffffff) << 32 | $2) | 0x2000000000000000))
  if ! prlimit --locks="$tt_tag" true 2>/dev/null; then
    tt_hard=$(prlimit --locks --noheadings --raw --output=HARD --pid $$)
    case $tt_hard in '' | *[!0-9]*) refuse "tag prlimit cannot mark the run's processes" ;; esac
    [ "$tt_hard" -gt 4294967296 ] || refuse "tag the limit on file locks is $tt_hard already"
    tt_tag=$((tt_hard - 1 - tt_tag % (tt_hard / 4)))
    prlimit --locks="$tt_tag" true || refuse "tag prlimit cannot mark the run's processes"
  fi
  tt_why=$(exec 2>&1; echo "$tt_tag" >"$tt_d/tag") || refuse_write
}

# Set tt_mark to the job's environment mark: tag, run, worker, place and root.
make_mark() {
  set -- $(printf %s "$tt_root" | cksum)
  tt_mark=$tt_tag/$tt_run/$tt_worker/$tt_place/$1
}

# Make a cgroup for the run, if this user may (root, with cgroup v2 from Linux 5.14 on).
make_cgroup() {
  tt_cgroup=
  for tt_w in /sys/fs/cgroup /sys/fs/cgroup/unified; do [ -w "$tt_w/cgroup.procs" ] && break; done
  while IFS=: read -r tt_v tt_p tt_line; do [ "$tt_v" != 0 ] || tt_w=$tt_w$tt_line; done </proc/self/cgroup
  tt_w=${tt_w%/}/tpu-tui-$tt_tag
  mkdir "$tt_w" 2>/dev/null || return 0
  if [ -w "$tt_w/cgroup.kill" ]; then echo "$tt_w" >"$tt_d/cgroup"; else rmdir "$tt_w" 2>/dev/null; fi
}

remove_cgroup() { read_line tt_cgroup "$tt_d/cgroup"; [ -z "$tt_cgroup" ] || rmdir "$tt_cgroup" 2>/dev/null; }

# Make the log, and reserve room for it and for the record of the job's end. Refuses if the disk is full.
reserve_room() {
  : >log
  : >room
  # The job's beginning and end are written into blocks that exist already.
  tt_w='
'
  while [ "${#tt_w}" -lt 4096 ]; do tt_w=$tt_w$tt_w; done
  tt_why=$(exec 2>&1
    for tt_p in status.new code.new pid.new why; do printf %s "$tt_w" >"$tt_p" || exit; done
    set -- $(stat -c %s status.new code.new pid.new why)
    [ "$*" = '4096 4096 4096 4096' ]) || refuse "full $tt_why"
  # A second name keeps the log's bytes reachable when its first one is taken away.
  ln log log.keep 2>/dev/null
  tt_why=$(LC_ALL=C fallocate -n -l $((tt_reserve + tt_last)) log 2>&1) && return 0
  refuse_full
  : >noreserve
  say "note reserve this file system cannot reserve room: a full disk would cost the job's output"
}

refuse_full() { case $tt_why in *'No space'* | *'quota'*) refuse "full $tt_why" ;; esac; }

refuse_write() { refuse_full; refuse "directory $tt_why"; }

# Print a login's exports. Directories of this session's PATH that the start-up files dropped stay in front: they were
# set for such sessions.
tt_export='tt_new=; IFS=:; set -f
for tt_w in $1; do case ":$PATH:" in *":$tt_w:"*) ;; *) tt_new=$tt_new$tt_w: ;; esac; done
export PATH="$tt_new$PATH"
export -p'

# Save the login environment, read by a child so that a start-up file that exits, fails or hangs does no harm.
login_environment() {
  tt_sh=sh tt_profile=$HOME/.profile
  case ${SHELL:-} in
    */bash) for tt_w in .bash_profile .bash_login; do
        [ -r "$HOME/$tt_w" ] && { tt_sh=$SHELL tt_profile=$HOME/$tt_w; break; }
      done ;;
  esac
  timeout -s KILL "${TPU_TUI_LOGIN_SECONDS:-20}" "$tt_sh" -c '
    tt_export=$1 tt_old=$2 tt_profile=$3
    trap "exec sh -c \"\$tt_export\" sh \"\$tt_old\" >&3" EXIT
    [ -r /etc/profile ] && . /etc/profile
    [ -r "$tt_profile" ] && . "$tt_profile"
    exit 0' sh "$tt_export" "$PATH" "$tt_profile" 3>login </dev/null >/dev/null 2>&1 8>&- 9>&-
  [ -s login ] || { export -p >login; say "note login the start-up files in $HOME did not end; going on without them"; }
}

check_command() {
  tt_why=$(LC_ALL=C sh -c 'tt_check=1; . "$1/login"; cd; . "$1/command" || exit 1
    case $1 in */*) [ ! -f "$1" ] || [ -x "$1" ] || { echo "command is not executable: $1"; exit 126; } ;; esac
    command -v -- "$1" >/dev/null || { echo "command not found: $1"; exit 127; }' sh "$tt_d" 2>&1 </dev/null 8>&- 9>&-) && return 0
  refuse "command $(brief "$tt_why")"
}

# Set tt_at to the attempt in the run's directory.
attempt_here() { read_line tt_at "$tt_d/attempt"; tt_at=${tt_at:-0}; }

# Whether an earlier attempt was set aside here.
has_earlier() { set -- "$tt_root/runs/$tt_run"/attempts/*/"$tt_worker"; [ -d "$1" ]; }

# Enter the directory of attempt $1, which a later attempt may have set aside.
enter() {
  attempt_here
  [ "$tt_at" = "$1" ] && cd "$tt_d" 2>/dev/null || cd "$tt_root/runs/$tt_run/attempts/$1/$tt_worker" 2>/dev/null
}

# Set the earlier attempt's directory aside for a further one, unless it is alive or the run was stopped.
set_aside() {
  [ ! -e "$tt_root/runs/$tt_run/stopped-$tt_worker" ] || refuse "stopped"
  [ -d "$tt_d" ] || return 0
  attempt_here
  [ "$tt_at" -lt "$tt_attempt" ] || refuse "elsewhere attempt $tt_at is there already"
  alive && refuse "busy run $tt_run pid ? command its earlier attempt"
  tt_why=$(mkdir -p "$tt_root/runs/$tt_run/attempts/$tt_at" 2>&1) || refuse "directory $tt_why"
  tt_aside=$tt_root/runs/$tt_run/attempts/$tt_at/$tt_worker
  tt_why=$(mv -T "$tt_d" "$tt_aside" 2>&1) || { tt_aside=; refuse "directory $tt_why"; }
}

# Make the run's directory and enter it, marked as alive for other sessions.
make_directory() {
  tt_why=$(mkdir -p "$tt_root/runs/$tt_run" 2>&1) || refuse "directory $tt_why"
  [ "$tt_attempt" = 0 ] || set_aside
  if ! tt_why=$(mkdir "$tt_d" 2>&1); then
    [ "$tt_attempt" = 0 ] || [ ! -d "$tt_d" ] || { tt_aside=; refuse "elsewhere its directory was made meanwhile"; }
    refuse "directory $tt_why"
  fi
  tt_made=1
  # A dead launcher is noticed at the next answer. Caught, not ignored: child processes have the default.
  trap 'unmake; exit 3' PIPE
  cd "$tt_d" || refuse "directory cannot enter $tt_d"
  # Inherited by every process of this launch.
  exec 8>>alive
  flock 8
  echo "$tt_attempt" >attempt
}

# Store the job's text and the run's record, of sizes $1 and $2. A keeper that does not know the secrets sends nothing:
# the files of the earlier attempt are copied.
receive_files() {
  if [ "$1" = 0 ]; then
    [ -n "$tt_aside" ] || refuse "cut nothing of an earlier attempt is here to launch again"
    cp "$tt_aside/command" "$tt_aside/run.json" . || refuse "directory cannot copy the earlier attempt's files"
  else
    tt_why=$(exec 8>&- 2>&1; LC_ALL=C head -c "$1" >command && LC_ALL=C head -c "$2" >run.json) || refuse_write
    set -- "$1 $2" $(stat -c %s command run.json)
    [ "$1" = "$2 $3" ] || refuse "cut what was sent did not arrive whole"
  fi
  printf '%s\n' "$tt_s" >worker.sh
}

# Launch attempt $3: $1 and $2 are the sizes of the job's text and the run's record (0: those of the attempt before), $4 the
# keeper's number (0: known here), $5 for how many seconds this session follows the log from byte 0 afterwards (0: not).
launch() {
  tt_attempt=$3 tt_keeper=${4:-0} tt_seconds=${5:-0} tt_made= tt_aside=
  check_programs
  make_directory
  [ "$tt_keeper" = 0 ] || store_number "$tt_keeper"
  receive_files "$1" "$2"
  echo "$tt_boot" >boot
  place
  printf %s "$tt_place" >place
  lock_worker
  choose_tag
  make_cgroup
  oom_kills
  echo "$tt_oom" >oom
  reserve_room
  mkfifo ack
  check_devices
  if [ "$tt_sync" = 1 ]; then
    say prepared
    tt_w=$(exec 8>&-; timeout "$tt_bar" head -c 3)
    [ "$tt_w" = 'chk' ] || refuse "cut the code never came"
  fi
  login_environment
  check_command
  # This session stays until all is decided: sshd stops feeding standard input once its direct child exits.
  exec 4>&1 5<&0
  tt_w=$(setsid -f sh ./worker.sh supervise "$tt_run" "$tt_worker" "$tt_nonce" "$tt_aside" 3>&1 >&4 <&5 5<&-) ||
    refuse "program setsid -f"
  [ -e running ] && [ "$tt_seconds" -gt 0 ] || exit 0
  trap - PIPE
  exec 4>&- 5<&- 8>&- 9>&-
  follow 0 "$tt_seconds" "$3"
}

# --- supervise: the barrier, the lease, the job -----------------------------------------------------------------------

# Set tt_by to the field of an answer about a run that a user stopped.
by_person() { tt_by=; [ ! -e "../stopped-$tt_worker" ] || tt_by=' stopped=1'; }

# End the job unless the launcher confirms it in time. SIGPIPE is ignored: a dead launcher must not end this watch.
lease() {
  trap '' PIPE
  exec 2>>trouble
  tt_w=
  tt_p=$(timeout "$tt_lease" cat ack)
  # An empty answer: it was stopped before it began, and there is nothing to confirm.
  if [ $? != 0 ] || [ -n "$tt_p" ]; then
    [ -z "$tt_p" ] || say "started $tt_p" >&4
    tt_w=$(timeout "$tt_lease" head -c 3)
  fi
  if [ "$tt_w" = 'ok!' ]; then
    mv armed running 2>/dev/null
    say running >&4
  else
    echo 20 >cancel
    mv armed aborted 2>/dev/null
    sweep 20 marked
    by_person
    say "aborted$tt_by" >&4
  fi
}

# The script of the job's process, tagged before it checks for `cancel`: either it sees a stop, or the stop sees it.
tt_job='exec 2>&1 </dev/null 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
[ ! -s "$1/cgroup" ] || { IFS= read -r tt_stat <"$1/cgroup" && echo 0 >"$tt_stat/cgroup.procs"; } 2>/dev/null
[ ! -e "$1/cancel" ] || { : >"$1/ack"; exit 143; }
IFS= read -r tt_stat </proc/$$/stat
tt_stat=${tt_stat##*") "}
tt_first() { shift 19; echo "$1"; }
{ printf "%s %s\n" $$ "$(tt_first $tt_stat)"; date -u +%Y-%m-%dT%H:%M:%S.%6N+00:00; } 1<>"$1/pid.new"
mv "$1/pid.new" "$1/pid"
echo $$ >"$1/ack"
tt_mark=$TPU_TUI_MARK
unset tt_stat tt_check
. "$1/login"
IFS= read -r TPU_TUI_ATTEMPT <"$1/attempt"
export TPU_TUI_ATTEMPT
cd
. "$1/command"
export TPU_TUI_MARK="$tt_mark"
unset tt_mark
exec "$@"'

job() {
  trap : TERM HUP  # caught, not ignored: the job has the defaults
  tt_defaults=
  env --default-signal true 2>/dev/null && tt_defaults='env --default-signal'
  make_mark
  # In the foreground, so that INT and QUIT keep their defaults; `why` gets the shell's message about a fatal signal.
  { TPU_TUI_MARK=$tt_mark setsid prlimit --locks="$tt_tag" $tt_defaults sh -c "$tt_job" sh "$tt_d"; tt_rc=$?; } 2>&3
  printf '%s\n' "$tt_rc" >&6
  mv code.new code 2>/dev/null
  date -u +%Y-%m-%dT%H:%M:%S.%6N+00:00 >&6
  restore
  read_line tt_w "$tt_d/cancel"
  tt_g=20
  [ "${tt_w:-0}" -le 20 ] || tt_g=$tt_w
  sweep "$tt_g" marked
  tt_said=
  until remove_container $((tt_g / 10)); do
    [ "$tt_why" = "$tt_said" ] || echo "tpu-tui: the container may be left: $tt_why"
    tt_said=$tt_why
    sleep 5
  done
  echo swept >&6
}

# Wait for the start of the gang, then run the job; its output goes through a pipe to the logger.
supervise() {
  tt_aside=$1
  cd "$tt_d" || exit 1
  trap 'unmake; exit 1' PIPE
  read_tag
  tt_noreserve=
  [ ! -e noreserve ] || tt_noreserve=1
  write_card
  say "armed $$ tag=$tt_tag"
  tt_w=$(timeout "$tt_bar" head -c 3)
  # `stopped` alone marks a stop that came while the earlier attempt was set aside and this one was not there yet.
  if [ "$tt_w" != 'go!' ] || [ -e cancel ] || [ -e "../stopped-$tt_worker" ]; then
    by_person
    unmake
    say "disarmed$tt_by"
    exit 1
  fi
  trap - PIPE
  : >going
  : >armed
  exec 5<&0
  lease <&5 5<&- &
  exec 5<&- </dev/null >/dev/null 2>>trouble 3>&- 4>&-
  # Held by the job's shell, the logger and `finish`; the job itself has none of them:
  #   3 why  4 card  5 pid  6 code  7 log  8 alive  9 the worker's lock
  command exec 3<>why 4<card 5<pid.new 6<>code.new 7>>log
  # A shutdown sends TERM and HUP to every process: the job's last output is still written.
  job | { trap '' TERM HUP; logger; finish; }
}

# --- the log, and how the run ended -----------------------------------------------------------------------------------

# Whether the job's processes have ended, by the file of its code ($1, or descriptor 6).
is_swept() { { read -r tt_w; read -r tt_w; read -r tt_w; } <"${1:-/proc/self/fd/6}"; [ "$tt_w" = swept ]; } 2>/dev/null

# Whether there is room for the next tt_count blocks of dd. Only a lack of room counts, not another error.
has_room() {
  tt_count=$tt_blocks
  # Where no room can be reserved, one block at a time shows whether there is some again.
  if [ -n "$tt_noreserve" ]; then [ ! -e full ] || tt_count=1; return 0; fi
  tt_size=$(stat -L -c %s /proc/self/fd/7)
  if tt_why=$(LC_ALL=C fallocate -n -o "$tt_size" -l $((tt_reserve + tt_last)) /proc/self/fd/7 2>&1); then
    tt_top=$((tt_size + tt_reserve + tt_last))
    return 0
  fi
  case $tt_why in *'No space'* | *'uota'*) ;; *) return 0 ;; esac
  # Room reserved earlier may be left: a cycle may end after few bytes.
  tt_count=$(((tt_top - tt_last - tt_size) / 65536))
  [ "$tt_count" -gt 0 ]
}

# Copy the pipe to the log. A block is read only when there is room for it: a full disk blocks the job in its write, and
# nothing is lost. Room is reserved for what is left in the pipe after the job's end.
logger() {
  tt_top=$((tt_reserve + tt_last))
  while :; do
    until has_room; do
      is_full
      ! is_swept || { tt_count=$((tt_last / 65536)); break; }
      sleep 0.5
    done
    [ -n "$tt_noreserve" ] || is_swept || is_roomy
    tt_w=$(LC_ALL=C dd bs=64k count="$tt_count" status=noxfer 2>&1 >&7)
    tt_v=$?
    count_of $tt_w
    if [ -z "$tt_n" ]; then sleep 0.2
    elif [ "$tt_v" != 0 ]; then
      # The block that could not be written is lost; the job goes on.
      ! is_swept || return 0
      is_full
      sleep 0.5
    else
      [ -z "$tt_noreserve" ] || is_roomy
      [ "$tt_n" -ge "$tt_count" ] || return 0
    fi
  done
}

is_full() { [ ! -e room ] || mv room full; } 2>/dev/null
is_roomy() { [ ! -e full ] || mv full room; } 2>/dev/null

# Set tt_n to the number of blocks that dd read, from its message after any warnings; empty if it was killed.
count_of() {
  tt_n=
  for tt_w; do
    case $tt_w in
      *[!0-9+]* | *+*+* | +* | *+) ;;
      *+*) tt_n=$((${tt_w%+*} + ${tt_w#*+})); return ;;
    esac
  done
}

# Restore the log's name, and set aside what a job put there.
put_log_back() {
  if [ -L log ] || ! [ log -ef /proc/self/fd/7 ]; then
    case $(readlink log) in /proc/*) rm -f log ;; esac
    { [ ! -e log ] && [ ! -L log ]; } || mv -T log "log.job-$tt_me" || rm -rf log
    ln -L /proc/self/fd/7 log || cp /proc/self/fd/7 log
  fi
} 2>/dev/null

# Read how the leader ended from the files $1 (its code) and $2 (the shell's message about a signal).
read_end() {
  tt_rc= tt_until= tt_signal= tt_line=
  { read -r tt_rc; read -r tt_until; } 2>/dev/null <"$1"
  case $tt_rc in '' | *[!0-9]*) return 1 ;; esac
  { IFS= read -r tt_line; } 2>/dev/null <"$2"
  [ -n "$tt_line" ] && [ "$tt_rc" -gt 128 ] && tt_signal=$(kill -l "$tt_rc" 2>/dev/null)
  read_line tt_w oom
  tt_oom=0
  [ -z "$tt_w" ] || { oom_kills; tt_oom=$((tt_oom - tt_w)); }
}

# Record how the run ended, last and atomically.
finish() {
  { [ -r /proc/self/fd/7 ] && [ -w /proc/self/fd/7 ]; } || chmod u+rw /proc/self/fd/7 2>/dev/null
  restore
  cd "$tt_d" 2>/dev/null
  truncate -s "$(stat -L -c %s /proc/self/fd/7)" /proc/self/fd/7
  put_log_back
  tt_size=$(stat -c %s log) || tt_size=0
  sync log
  tt_aborted= tt_since=
  read_end /proc/self/fd/6 /proc/self/fd/3
  [ -n "$tt_rc" ] || tt_rc=unknown
  [ -n "$tt_until" ] || tt_until=$(date -u +%Y-%m-%dT%H:%M:%S.%6N+00:00)
  [ -e aborted ] && tt_aborted=1
  { read -r tt_w; read -r tt_since; } </proc/self/fd/5
  read_line tt_line boot
  printf 'exit=%s signal=%s size=%s oom=%s aborted=%s boot=%s time=%s since=%s\n' \
    "$tt_rc" "$tt_signal" "$tt_size" "$tt_oom" "$tt_aborted" "$tt_line" "$tt_until" "$tt_since" 1<>status.new
  sync status.new
  mv status.new status
  # A symlink to the holder's descriptor would dangle from now on.
  [ ! -L alive ] || { : >"alive.$tt_me" && mv "alive.$tt_me" alive; }
  sync .
  remove_cgroup
}

# --- follow -----------------------------------------------------------------------------------------------------------

# Open what a follower of attempt $1 reads: 5 code, 6 why, 7 log, 8 alive. A live supervisor's descriptors remain,
# whatever happens to the run's directory. Files alone are trusted if they show an end or a held lock; otherwise they may
# be about to be removed.
open_record() {
  open_up
  is_intact || find_alive
  open_supervisors "$1" && return 0
  open_files "$1" && { [ -s status ] || ! is_free; } && return 0
  find_alive
  open_supervisors "$1" || open_files "$1"
}

open_supervisors() {
  [ -n "$tt_main" ] && read_card "$tt_main" && [ "$tt_its_attempt" = "$1" ] || return 1
  tt_was=$tt_boot tt_v=/proc/$tt_main/fd
  choose_log
  { command exec 5<"$tt_v/6" 6<"$tt_v/3" 7<"$tt_v/7" 8<"$tt_v/8"; } 2>/dev/null
}

open_files() {
  enter "$1" || return 1
  tt_main=
  read_line tt_was boot
  choose_log
  command exec 7<"$tt_log"
  for tt_v in code code.new /dev/null; do command exec 5<"$tt_v" && break; done
  for tt_v in why /dev/null; do command exec 6<"$tt_v" && break; done
  for tt_v in alive .; do command exec 8<"$tt_v" && break; done
} 2>/dev/null

# Whether no supervisor holds what open_record opened.
is_free() { flock -n -s /proc/self/fd/8 true; }

log_size() { stat -L -c %s /proc/self/fd/7; }

# Report how attempt $1 ended: by its status, or if that is gone, by the files that are still open.
report_end() {
  if enter "$1" && [ -s status ]; then
    read_line tt_line status
    tt_w=$tt_root/runs/$tt_run/stopped-$tt_worker tt_v=
    # A user's stop; one after the end did not cause it.
    [ ! -e "$tt_w" ] || [ "$tt_w" -nt status ] || tt_v=1
    say_aside "end $tt_line stopped=$tt_v"
  elif read_end /proc/self/fd/5 /proc/self/fd/6 && is_swept /proc/self/fd/5; then
    say_aside "end exit=$tt_rc signal=$tt_signal size=$(log_size) oom=$tt_oom time=$tt_until boot=$tt_boot"
  else
    say_aside "lost size=$(log_size) boot=$tt_boot was=$tt_was code=$tt_rc"
  fi
}

# Report to a follower of a live run whether there is room on the disk, and every change; and how the job ended, while
# processes that it left behind are still being ended. Ends with the shell that started it, because a killed sshd takes
# that shell along without a chance to end this.
report_changes() {
  tt_before= tt_said=
  while kill -0 $$ 2>/dev/null; do
    [ -n "$tt_said" ] || ! read_end /proc/self/fd/5 /proc/self/fd/6 || [ -z "$tt_until" ] ||
      { say_aside "ending exit=$tt_rc signal=$tt_signal oom=$tt_oom time=$tt_until"; tt_said=1; }
    tt_is=room; [ ! -e full ] || tt_is=full
    [ "$tt_is" = "$tt_before" ] || say_aside "$tt_is"
    tt_before=$tt_is
    sleep 1 >/dev/null 2>&1 || return
  done
}

# Send attempt $3's log from byte $1 on, for at most $2 seconds, checking for more every $tt_pace seconds. Of a shorter
# log nothing is sent: this waits until the job ends, or 30 seconds have passed and the log may have grown again.
follow() {
  open_record "$3" || { say norun; exit 4; }
  enter "$3"
  tt_size=$(log_size)
  if [ "$tt_size" -lt "$1" ]; then
    say "short $tt_size $tt_boot $tt_was"
    report_changes &
    tt_v=30
    [ "$2" -gt "$tt_v" ] || tt_v=$2
    timeout "$tt_v" flock -s 8
    kill "$!" 2>/dev/null
    ! is_free || report_end "$3"
    exit 5
  fi
  say "log $tt_size $tt_boot $tt_was"
  if is_free; then
    tail -c "+$(($1 + 1))" <&7
  else
    flock -s 8 &
    tt_w=$!
    report_changes &
    tt_room=$!
    { timeout "$2" tail -c "+$(($1 + 1))" -s "$tt_pace" --pid="$tt_w" -f <&7; kill "$tt_w"; } 2>/dev/null &
    wait "$tt_w"
    tt_v=$?
    kill "$tt_room" 2>/dev/null
    wait
    [ "$tt_v" = 0 ] || exit 124
  fi
  report_end "$3"
}

# --- stop -------------------------------------------------------------------------------------------------------------

describe() {
  tt_text=
  for tt_p; do tt_text="$tt_text pid $tt_p ($(stat -c %U "/proc/$tt_p" 2>/dev/null): $(command_of "$tt_p"))"; done
  printf %s "$tt_text" | head -c 600
}

outcome() { read_line tt_line status; tt_line=${tt_line:-exit=unknown unrecorded=1}; }

# The machine of the run's directory, in tt_machine: `here`, `rebooted` (this one before its last boot) or `other`. A
# directory that is still being made has no place yet, and is here.
find_machine() {
  tt_machine=here
  [ -s place ] || return 0
  read_line tt_line boot
  [ "$tt_line" != "$tt_boot" ] || return 0
  place
  read_line tt_line place
  if [ "$tt_line" = "$tt_place" ]; then tt_machine=rebooted; else tt_machine=other; fi
}

unconfirmed() { say "unconfirmed $*"; exit 0; }

# Refuse to confirm a stop while there are processes of the run, or if the last sweep (status $1) found new ones.
check_swept() {
  members all
  [ -z "$tt_members" ] || unconfirmed "still there:$(describe $tt_members)"
  [ "$1" = 0 ] || unconfirmed "new processes of the run keep appearing"
}

# End a run that has no directory here: grace $1, and tag $2 that the launcher knows (0 or empty: unknown).
stop_without_directory() {
  [ -z "$tt_unnamed" ] || unconfirmed "its directory is gone, and its supervisor lives:$(describe "$tt_unnamed")"
  [ "${2:-0}" = 0 ] || tt_tag=$2
  members all
  [ -n "$tt_members" ] || { say "$tt_never${2:+ gone=1}"; exit 0; }
  sweep "$1" all
  check_swept $?
  say "stopped exit=unknown unrecorded=1 removed=1"
}

# Wait a moment for the supervisor's end, and enter its directory: the supervisor restores a removed one, at the latest
# when it ends.
supervisor_ended() {
  if [ . -ef "$tt_d" ] && [ -e alive ]; then flock -w 1 -s alive true; return; fi
  supervisors "$tt_run" "$tt_worker"
  [ -z "$tt_supervisors" ] || { sleep 0.1; return 1; }
  cd "$tt_d" 2>/dev/null || true
}

# End the run here: $1 is the grace in tenths of a second; with $2 = 1 no further attempt may begin here either; $3 is
# the tag that the launcher knows, or 0. A stop is confirmed only when every check finds nothing left.
stop() {
  tt_w=$tt_root/runs/$tt_run
  # The mark's time shows whether it came before an end, so the first stop's mark stays.
  [ "$2" != 1 ] || [ ! -d "$tt_w" ] || [ -e "$tt_w/stopped-$tt_worker" ] || : >"$tt_w/stopped-$tt_worker"
  tt_never='stopped never=1'
  ! has_earlier || tt_never='stopped never=1 before=1'
  if ! cd "$tt_d" 2>/dev/null; then
    [ ! -d "$tt_d" ] || unconfirmed "cannot enter $tt_d"
    stop_without_directory "$1" "${3:-}"
    exit 0
  fi
  find_machine
  case $tt_machine in
    rebooted) outcome; say "stopped $tt_line rebooted=1"; exit 0 ;;
    other) unconfirmed "this directory belongs to another machine ($tt_line)" ;;
  esac
  { echo "$1" >cancel.new && mv cancel.new cancel; } 2>/dev/null || true >cancel
  [ -e going ] || { members; [ -z "$tt_members" ] && { say "$tt_never"; exit 0; }; }
  now; tt_end=$((tt_now + $1 * 10))
  sweep "$1" all
  tt_swept=$?
  now; [ "$tt_now" -lt "$tt_end" ] || tt_end=$tt_now
  remove_container $(((tt_end - tt_now) / 100)) || unconfirmed "its container may be left: $(brief "$tt_why")"
  # Any process that holds the job's output open keeps the supervisor: search again until it has ended.
  now; tt_patience=$((tt_now + 4000))
  until supervisor_ended || { now && [ "$tt_now" -ge "$tt_patience" ]; }; do
    sweep 0 all
    tt_swept=$?
  done
  check_swept "$tt_swept"
  alive && unconfirmed "its supervisor has not ended"
  has_processes && unconfirmed "new processes of the run keep appearing"
  if [ ! -s status ]; then
    for tt_w in 1 2 3 4 5; do
      sleep 0.1
      members
      [ -z "$tt_members" ] || unconfirmed "still there:$(describe $tt_members)"
    done
  fi
  owners
  [ -z "$tt_owners" ] || { set -- $tt_owners; unconfirmed "device $2 is still held by$(describe "$1")"; }
  tt_w=${TPU_TUI_LOCKFILE:-/tmp/libtpu_lockfile}
  [ -n "$tt_real" ] && [ -z "$tt_hidden" ] && rm -f "$tt_w" 2>/dev/null
  remove_cgroup
  outcome
  say "stopped $tt_line${tt_hidden:+ device=unknown}"
}

# --- status, list and other verbs -------------------------------------------------------------------------------------

# Set tt_c to the condition of the run.
condition() {
  if alive; then
    # Aborted and still alive: its end is not written yet.
    if [ -e running ]; then tt_c=running; elif [ -e going ]; then tt_c=started; else tt_c=armed; fi
  elif [ -s status ]; then tt_c=ended
  elif [ ! -e going ]; then tt_c=never
  else tt_c=lost; fi
}

# Enter the run's directory; if only an earlier attempt is there, set aside, wait a moment for the next one's.
enter_or_wait() {
  for tt_w in 1 2 3 4 5; do
    cd "$tt_d" 2>/dev/null && return 0
    has_earlier && sleep 0.1 || return 1
  done
  return 1
}

report() {
  is_intact
  enter_or_wait || { say norun; exit 0; }
  condition
  case $tt_c in
    # Its directory may be about to be removed.
    never | lost) find_alive; [ -z "$tt_main" ] || ! cd "$tt_d" || condition ;;
  esac
  choose_log
  read_tag
  read_line tt_line status
  read_line tt_was boot
  read_line tt_keeper "../keeper-$tt_worker"
  attempt_here
  tt_c="$tt_c log=$(stat -L -c %s "$tt_log" 2>/dev/null) tag=$tt_tag now=$tt_boot was=$tt_was"
  tt_c="$tt_c confirmed=$([ -e running ] && echo 1) attempt=$tt_at keeper=$tt_keeper"
  tt_c="$tt_c stopped=$([ -e "../stopped-$tt_worker" ] && echo 1)"
  say "$1 $tt_run $tt_worker $tt_c $tt_line"
}

status() { report status; }

list() {
  supervisors '[^ ]*' '[^ ]*'
  for tt_v in $tt_supervisors; do
    read_card "$tt_v" && [ "$tt_its_root" = "$tt_root" ] || continue
    tt_d=$tt_root/runs/$tt_its_run/$tt_its_worker
    is_intact || (give_back "$tt_sup")
  done
  for tt_d in "$tt_root"/runs/*/attempts/*/"$tt_worker"; do
    [ -d "$tt_d" ] || continue
    tt_d=${tt_d%/attempts/*}
    (tt_run=${tt_d##*/} tt_d=$tt_d/$tt_worker; enter_or_wait)
  done
  for tt_d in "$tt_root"/runs/*/*/; do
    tt_d=${tt_d%/}
    [ -e "$tt_d/boot" ] || continue
    tt_worker=${tt_d##*/}; tt_run=${tt_d%/*}; tt_run=${tt_run##*/} tt_tag=
    report run
  done
  say listed
}

# Send the run.json of a run after an answer with its size.
show() {
  [ -s "$tt_d/run.json" ] || { say norun; exit 0; }
  say "json $(stat -c %s "$tt_d/run.json")"
  cat "$tt_d/run.json"
}

# Store keeper $1's number: the newest keeper applies the run's policies, the others only mirror it.
store_number() {
  tt_w=$tt_root/runs/$tt_run/keeper-$tt_worker
  echo "$1" >"$tt_w.new" && mv "$tt_w.new" "$tt_w"
}

keep() {
  [ -d "$tt_root/runs/$tt_run" ] || { say norun; exit 0; }
  store_number "$1"
  say kept
}

# Claim --on-end for the keeper's directory of number $1; answer the number that claimed it first. A link makes that
# number appear whole.
entitle() {
  [ -d "$tt_root/runs/$tt_run" ] || { say norun; exit 0; }
  tt_w=$tt_root/runs/$tt_run/on-end-$tt_worker
  echo "$1" >"$tt_w.$1" && { ln "$tt_w.$1" "$tt_w" || (set -C; echo "$1" >"$tt_w"); } 2>/dev/null
  rm -f "$tt_w.$1"
  read_line tt_line "$tt_w"
  say "entitled $tt_line"
}

# Remove a run that is over, unless something of it may be alive.
delete() {
  tt_all=$tt_root/runs/$tt_run
  if cd "$tt_d" 2>/dev/null; then
    find_machine
    case $tt_machine in
      here)
        alive && { say "alive its supervisor lives"; exit 0; }
        members
        [ -z "$tt_members" ] || { say "alive still there:$(describe $tt_members)"; exit 0; } ;;
      other) say "alive this directory belongs to another machine ($tt_line)"; exit 0 ;;
    esac
  fi
  remove_cgroup
  cd /
  tt_why=$(rm -rf "$tt_d" "$tt_all"/attempts/*/"$tt_worker" "$tt_all/keeper-$tt_worker" "$tt_all/stopped-$tt_worker" \
    "$tt_all/on-end-$tt_worker" 2>&1) ||
    { say "alive cannot remove it: $(brief "$tt_why")"; exit 0; }
  rmdir "$tt_all"/attempts/* "$tt_all/attempts" "$tt_all" 2>/dev/null
  say deleted
}

tt_unnamed=
case $tt_verb in
  launch | supervise | follow | list) ;;
  stop | status | show | keep | entitle | delete) open_up; is_intact || find_alive ;;
  *) say "refused verb $tt_verb"; exit 2 ;;
esac
"$tt_verb" "$@"
