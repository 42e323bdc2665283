# Installs a tree that arrives on standard input (tui.ssh.sync.bundle), with sh and coreutils only. Called as
#   exec sh -c 'tt_s=$(head -c BYTES); eval "$tt_s"' tpu-tui NONCE HASH
# with this script on stdin, after a line of settings (tt_root) and the prelude (tui/ssh/exec/script_prelude.sh).

tt_nonce=$1 tt_hash=$2
umask 077; LC_ALL=C; export LC_ALL
say here

# Whether the files of directory $1 are those of the list $2.
right() { [ -d "$1" ] && { [ ! -s "$2" ] || ( cd "$1" && sha256sum --status -c "../$2" ) 2>/dev/null; }; }

# Whether the tree is in place.
intact() { [ -e "$tt_hash.sha256" ] && right "$tt_hash" "$tt_hash.sha256"; }

# A number of 20 digits from standard input, without its leading zeros.
number() { tt_n=$(head -c 20); tt_n=${tt_n#"${tt_n%%[!0]*}"}; printf %s "${tt_n:-0}"; }

fail() { say failed "$1"; exit 1; }

# All of the installation is read before it runs: what follows on standard input is data.
install_tree() {
  mkdir -p "$tt_root/code" && cd "$tt_root/code" || fail "cannot make $tt_root/code"
  intact && { say have; exit 0; }
  tt_new=.new-$tt_hash-$tt_nonce
  trap 'cd "$tt_root/code" && rm -rf "$tt_new" "$tt_new.sha256"' EXIT
  trap 'exit 1' HUP INT TERM
  mkdir "$tt_new" || fail "cannot make $tt_root/code/$tt_new"
  say want
  head -c "$(number)" >"$tt_new.sha256"
  tt_script=$(head -c "$(number)")
  ( set -e; cd "$tt_new"; eval "$tt_script" )
  [ $? = 0 ] || fail "a file could not be written"
  right "$tt_new" "$tt_new.sha256" || fail "what arrived is not what was sent"
  sync -f "$tt_new" 2>/dev/null
  if [ -e "$tt_hash" ] && ! intact; then mv "$tt_hash" ".old-$tt_hash-$tt_nonce"; fi
  mv -f "$tt_new.sha256" "$tt_hash.sha256"
  mv -T "$tt_new" "$tt_hash" 2>/dev/null || right "$tt_hash" "$tt_hash.sha256" || fail "cannot be put in place"
  rm -rf "$tt_new" "$tt_new.sha256"
  say done
}
install_tree
