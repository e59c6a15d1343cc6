#!/bin/sh
# A command of Grid Engine as it runs on the machine of its own that the cell says.
exec nsenter --net --mount --uts --target "$(cat "$SGE_ROOT/machine")" -- "/usr/lib/gridengine/${0##*/}" "$@"
