#!/bin/sh
# A command of Grid Engine, run as somebody who may do nothing.
exec runuser -u nobody -- "/usr/lib/gridengine/${0##*/}" "$@"
