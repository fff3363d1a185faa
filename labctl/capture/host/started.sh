# Starts one process on the drive's host, in a directory of its own below the keeper's, which has
# its files already if it needs any.
# $1: the keeper's directory, $2: name; then the command. The process takes this shell's place, so
# that its pid, its pipes and its parent (sshd, with whose end the kernel kills it where setpriv can
# say so) are the shell's.
mkdir -p -m 700 "$1/$2" && cd "$1/$2" && echo $$ > pid && [ ! -e ../over ] || exit 73
shift 2
if setpriv --pdeathsig KILL true 2>/dev/null; then
    exec setpriv --pdeathsig KILL "$@"
fi
exec "$@"
