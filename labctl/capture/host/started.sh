# Starts one process on the drive's host, in a directory of its own below the keeper's.
# $1: the keeper's directory, $2: name, $3: number of files; then name and content of each; then
# the command. The process takes this shell's place, so that its pid, its pipes and its parent
# (sshd, with whose end the kernel kills it where setpriv can say so) are the shell's.
mkdir -m 700 "$1/$2" && cd "$1/$2" && echo $$ > pid || exit 73
left=$3
shift 3
while [ "$left" -gt 0 ]; do
    printf %s "$2" > "$1" || exit 73
    shift 2
    left=$((left - 1))
done
if setpriv --pdeathsig KILL true 2>/dev/null; then
    exec setpriv --pdeathsig KILL "$@"
fi
exec "$@"
