# Runs on the drive's host, in the place of a program that works on drives: opens them, and then
# becomes the program, which has them as open files 3, 4, … What is open cannot become another file
# or device meanwhile, as what a name leads to can.
# $1: how many; of each five words: its path, "b" for a block device or "f" for a file, what it must
# be (the device's number MAJOR:MINOR in hexadecimal, or FILESYSTEM:INODE), the bytes that a file has
# at least, and "data" or "room", with which it is filled up. Then the program and its arguments.
# For any POSIX shell; more than 7 need bash, which alone has open files of two digits.
exec 3<&- 4<&- 5<&- 6<&- 7<&- 8<&- 9<&-
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
tied=
setpriv --pdeathsig KILL true 2> /dev/null && tied="setpriv --pdeathsig KILL"

left=$1
number=3
shift
while [ "$left" -gt 0 ]; do
    path=$1 kind=$2 is=$3 bytes=$4 filling=$5
    shift 5
    format=%d:%i
    [ "$kind" = b ] && format=%t:%T
    file=/proc/self/fd/$number
    found=nothing
    if [ ! -L "$path" ] && [ "-$kind" "$path" ] && eval "exec $number< \"\$path\""; then
        [ "-$kind" "$file" ] && found=$(stat -L -c "$format" "$file")
    fi
    if [ "$found" != "$is" ]; then
        printf 'labctl: %s is not what was checked any more\n' "$path" >&2
        exit 66
    fi
    if [ "$kind" = f ] && [ "$(stat -L -c %s "$file")" -lt "$bytes" ]; then
        fallocate -l "$bytes" "$file" 2> /dev/null || truncate -s "$bytes" "$file" || exit 73
        if [ "$filling" = data ]; then
            $tied head -c "$bytes" /dev/urandom < /dev/null |
                $tied dd of="$file" bs=1M iflag=fullblock conv=notrunc,fsync status=none || exit 73
        fi
    fi
    number=$((number + 1)) left=$((left - 1))
done
exec "$@"
