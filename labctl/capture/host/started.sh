# Starts one process on the drive's host, in a directory of its own below the keeper's, which has
# its files already if it needs any. The keeper's own is not made anew: it has removed it where it
# has ended, and nobody would end what is started then.
# $1: the keeper's directory, $2: name; then the command. The process takes this shell's place, so
# that its pid, its pipes and its parent (sshd, with whose end the kernel kills it where setpriv can
# say so) are the shell's, as is when it was started (the 20th word behind its name, proc(5)).
start=$(read -r line < "/proc/$$/stat" && set -- ${line##*) } && echo "${20}")
mkdir -m 700 "$1/$2" 2> /dev/null
cd "$1/$2" && echo $$ "$start" > pid && [ ! -e ../over ] || exit 73
shift 2
if setpriv --pdeathsig KILL true 2>/dev/null; then
    exec setpriv --pdeathsig KILL "$@"
fi
exec "$@"
