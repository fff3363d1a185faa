# Runs on the drive's host: a program that ends by itself, in a directory of its own below the
# keeper's, so that it is killed as everything else that was started there (keeper.sh).
# $1: the keeper's directory, $2: name; then the program and its arguments.
start=$(read -r line < "/proc/$$/stat" && set -- ${line##*) } && echo "${20}")
mkdir -m 700 "$1/$2" && cd "$1/$2" && echo $$ "$start" > pid && [ ! -e ../over ] || exit 73
directory=$1/$2
shift 2
"$@"
code=$?
cd / && rm -rf "$directory"
exit "$code"
