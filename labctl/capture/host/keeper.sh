# Runs on the drive's host, over ssh: keeps watch over what is started there, and answers.
# $1: token of the run, $2: number of this connection, $3: seconds without a heartbeat: lost.
# For any POSIX shell (dash, busybox): no "read -t". Each line of standard input is an order.
umask 077
trap '' PIPE

base=${TMPDIR:-/tmp}
mkdir "$base/labctl-$1-$2" && cd "$base/labctl-$1-$2" && echo room > room && rm room || exit 73
here=$(pwd -P)

# Kill process $1, its group, and its session: also what has a group of its own there (timeout).
# Behind its name, /proc/PID/stat has the state of a process, its parent, group, session (proc(5)).
# What is started while they are looked through is found the next time. Group by group, at first its
# own: a shell whose program died before it would go on.
kill_session() {
    kill -s KILL -- "-$1" || kill -s KILL "$1"
    killed=" "
    for pass in 1 2 3 4 5 6 7 8 9 10; do
        before=$killed
        for stat in /proc/[0-9]*/stat; do
            read -r line < "$stat" || continue
            set -- "$1" ${line##*) }
            [ "$5" = "$1" ] || continue
            case $killed in *" ${line%% *} "*) continue ;; esac
            kill -s KILL -- "-$4" || kill -s KILL "${line%% *}"
            killed="$killed${line%% *} "
        done
        [ "$killed" != "$before" ] || break
    done
} 2>/dev/null

# When process $1 was started: another one with its number was not, and exec keeps it.
start_of() {
    read -r line < "/proc/$1/stat" && set -- ${line##*) } && echo "${20}"
} 2>/dev/null

# Kill every process that was started below directory $1 and is still there, with its session.
kill_all() {
    for file in "$1"/*/pid; do
        read -r pid start < "$file" || continue
        [ -z "$start" ] || [ "$(start_of "$pid")" != "$start" ] || kill_session "$pid"
    done 2>/dev/null
}

# The same, and remove $1. Who has not written its pid yet finds "over" after it has, and ends.
reap() {
    echo > "$1/over"
    kill_all "$1"
    cd / && rm -rf "$1"
} 2>/dev/null

# What an earlier connection of this run has left.
for left in "${here%-*}"-*; do
    [ "$left" = "$here" ] || reap "$left"
done
cd "$here" || exit 73

# The watchdog: every heartbeat sends it CONT, a signal that does nothing before the trap is set.
(
    trap 'seconds=$3' CONT
    seconds=$3
    while [ "$seconds" -gt 0 ]; do
        sleep 1
        seconds=$((seconds - 1))
    done
    reap "$here"
) < /dev/null > /dev/null 2>&1 &
watchdog=$!

boot=none
read -r boot < /proc/sys/kernel/random/boot_id
echo "ready $1 $boot $here"

while read -r order name word; do
    case $order in
    heartbeat)
        kill -s CONT "$watchdog" || break
        ;;
    clock)
        wall=$(date +%s%N)
        up=-
        read -r up rest < /proc/uptime
        echo "clock $name $wall $up"
        ;;
    load)
        waiting=-
        ticks=-
        read -r skip skip skip skip waiting < /proc/pressure/cpu
        read -r skip ticks < /proc/stat
        echo "load $name $waiting $ticks"
        ;;
    signal)
        read -r pid start < "$name/pid" && kill -s "$word" "$pid"
        ;;
    kill)
        read -r pid start < "$name/pid" && kill_session "$pid"
        ;;
    kill-all)
        kill_all "$here"
        ;;
    drop)
        rm -rf "./$name"
        ;;
    esac 2>/dev/null
done

# Standard input has ended: whoever gave the orders is gone.
reap "$here"
kill -s KILL "$watchdog"
