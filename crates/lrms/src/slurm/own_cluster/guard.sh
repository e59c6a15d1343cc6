cat > /dev/null
family() {
    echo "$1"
    for child in $(cat "/proc/$1/task/"*/children 2> /dev/null); do family "$child"; done
}
cluster() {
    for process in $(grep -lzxF -e "$2=$1" /proc/[0-9]*/environ 2> /dev/null); do
        process=${process%/environ}
        family "${process#/proc/}"
    done
    for process in $(grep -lxF slurmstepd /proc/[0-9]*/comm 2> /dev/null); do
        process=${process%/comm}
        place=$(readlink "$process/cwd")
        [ "${place% (deleted)}" != "$1" ] || family "${process#/proc/}"
    done
}
for pass in 1 2 3 4 5 6 7 8 9; do
    found=$(cluster "$1" "$2" | grep -vx "$$")
    [ -n "$found" ] || exit
    kill -KILL $found 2> /dev/null
    sleep 0.05
done
