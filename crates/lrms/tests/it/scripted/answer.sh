#!/bin/sh
# Stands for a command of a batch system: notes how it was called and what it read, and gives the next answer that was
# laid down for it; the last one again and again. Several may run at once: each answer but the last is given once.
cd "${0%/*}/.." || exit 99
name=${0##*/}
line=$(printf '%s\t' "$name" "$@")
printf '%s\n' "$line" >> log
cat > "$name.input"
number=1
until (set -C && : > "$name.$number.used") 2> /dev/null; do number=$((number + 1)); done
if [ ! -e "$name.$number.code" ]; then rm "$name.$number.used" && number=$((number - 1)); fi
if [ -e "$name.$number.hangs" ]; then exec sleep 60; fi
if [ ! -e "$name.$number.code" ]; then
    echo "nobody said what $name answers" >&2
    exit 98
fi
if [ -e "$name.$number.takes" ]; then sleep "$(cat "$name.$number.takes")"; fi
cat "$name.$number.out"
cat "$name.$number.err" >&2
exit "$(cat "$name.$number.code")"
