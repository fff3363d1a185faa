# Runs on the drive's host, over ssh: keeps watch over what is started there, and answers.
# $1: token of the run, $2: number of this connection, $3: seconds without a heartbeat: lost.
# For any POSIX shell (dash, busybox): no "read -t". Each line of standard input is an order.
umask 077
trap '' PIPE

base=${TMPDIR:-/tmp}
mkdir "$base/labctl-$1-$2" && cd "$base/labctl-$1-$2" && echo room > room && rm room || exit 73
here=$(pwd -P)

# Kill every process (and its group) that was started below directory $1 and is still there.
kill_all() {
    for file in "$1"/*/pid; do
        read -r pid < "$file" || continue
        [ "$(cd -P "/proc/$pid/cwd" && pwd -P)" = "${file%/pid}" ] || continue
        kill -s KILL -- "-$pid" || kill -s KILL "$pid"
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
        read -r pid < "$name/pid" && kill -s "$word" "$pid"
        ;;
    kill)
        read -r pid < "$name/pid" && { kill -s KILL -- "-$pid" || kill -s KILL "$pid"; }
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
