#!/bin/sh
echo "on $SLURM_CLUSTER_NAME since $(date -u +%FT%TZ), $SLURM_NTASKS cores of $SLURM_JOB_NODELIST"
sleep 120
