# Runs on the drive's host: what a program and all that it started have open.
# $1: the directory it was started in; $2: its number, or nothing where the file "pid" there has it.
# First "pid NUMBER", then of each open file /proc/PID/fd/NUMBER what it is called ("-> NAME"), its
# mode, device, filesystem, bytes and inode, and its flags; then "own FILESYSTEM:INODE" of each file
# in the directory.
directory=$1
pid=$2
[ -n "$pid" ] || read -r pid start < "$directory/pid" || exit 1
echo "pid $pid"
family=$(grep -s '^PPid:' /proc/[0-9]*/status | awk -F '[/:\t]+' -v root="$pid" '
    { parent[$3] = $6 }
    END {
        mine[root]
        do {
            more = 0
            for (one in parent)
                if (!(one in mine) && (parent[one] in mine)) {
                    mine[one]
                    more = 1
                }
        } while (more)
        for (one in mine) print one
    }')
set --
flags=
for one in ${family:-$pid}; do
    set -- "$@" "/proc/$one/fd/"*
    flags="$flags /proc/$one/fdinfo/*"
done
ls -l "$@" 2> /dev/null
stat -L -c '%n %f %t %T %d %s %i' "$@" 2> /dev/null
# shellcheck disable=SC2086
grep -s '^flags:' /dev/null $flags
# at last: what was made there just now counts, too
stat -c 'own %d:%i' "$directory"/* 2> /dev/null
