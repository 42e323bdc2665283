# Lists files of a worker and sends them. Needs sh and coreutils. Arguments: a nonce, and `list` or `send`.
# Requests arrive on standard input after this script. Answers are lines that begin with @NONCE.
# File descriptor 3 is the real standard output, 4 the place for names that are left out.

LC_ALL=C; export LC_ALL
tt_nonce=$1
exec 3>&1
say() { printf '@%s %s\n' "$tt_nonce" "$*"; }

# Reads the next $1 bytes into tt_text, trailing newlines included.
read_text() { tt_text=$(head -c "$1"; printf x); tt_text=${tt_text%x}; }

# The names of all files below a directory, each with a NUL. Links to directories are not followed.
walk() {
  [ -r "$1" ] && [ -x "$1" ] || { printf 'unreadable %s\n' "$1" >&4; return; }
  for tt_f in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    if [ -f "$tt_f" ]; then printf '%s\0' "$tt_f"
    elif [ -d "$tt_f" ] && [ ! -L "$tt_f" ]; then walk "$tt_f"
    elif [ -e "$tt_f" ] || [ -L "$tt_f" ]; then printf 'special %s\n' "$tt_f" >&4
    fi
  done
}

# The files that a request names: a link to a file or directory stands for its target.
expand() {
  if [ -d "$1" ]; then walk "${1%/}"
  elif [ -f "$1" ]; then printf '%s\0' "$1"
  elif [ -e "$1" ] || [ -L "$1" ]; then printf 'special %s\n' "$1" >&4
  fi
}

# Requests: a line with the length of a pattern, and the pattern. Answers: `here`, records `SIZE<tab>NAME<NUL>`, an
# empty record, and `left …` for what cannot be sent.
list() {
  while read -r tt_n; do
    read_text "$tt_n"
    say here
    tt_left=$({
      if [ -e "$tt_text" ] || [ -L "$tt_text" ]; then expand "$tt_text"
      else
        IFS=
        for tt_m in $tt_text; do case $tt_m in */. | */..) ;; *) expand "$tt_m" ;; esac; done
      fi | du -0blD --files0-from=- >&3 2>/dev/null
    } 4>&1)
    printf '\0'
    printf '%s\n' "$tt_left" | while read -r tt_f; do [ -z "$tt_f" ] || say left "$tt_f"; done
    say listed
  done
}

# The SHA-256 of a file's first $1 bytes.
digest() { head -c "$1" <"$tt_text" | sha256sum; }

# A file's bytes from $1 up to $2. If it has become shorter, zeros follow; the hash reveals them.
content() { { tail -c "+$(($1 + 1))" <"$tt_text"; exec cat /dev/zero; } 2>/dev/null | head -c "$(($2 - $1))"; }

# Requests: a line with a file's size, the number of its bytes that the client has, their SHA-256 and the length of its
# name, and the name. Answers: `no`, or `data FROM`, the bytes from there to the size, and `end SHA256`.
send() {
  while read -r tt_size tt_have tt_hash tt_n; do
    read_text "$tt_n"
    if [ ! -f "$tt_text" ]; then say no "it is not there any more"; continue
    elif [ ! -r "$tt_text" ]; then say no "permission denied"; continue
    fi
    tt_from=0
    if [ "$tt_have" -gt 0 ]; then
      tt_sum=$(digest "$tt_have")
      [ "${tt_sum%% *}" != "$tt_hash" ] || tt_from=$tt_have
    fi
    say data "$tt_from"
    if [ "$tt_from" = 0 ] || [ "$tt_from" != "$tt_size" ]; then
      tt_sum=$(digest "$tt_size" & content "$tt_from" "$tt_size" >&3; wait)
    fi
    say end "${tt_sum%% *}"
  done
}

cd "$HOME" && "$2"
