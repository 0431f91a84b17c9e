#!/bin/sh
#SBATCH --job-name=ffs-study
#SBATCH --array=1-16
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
#SBATCH --time=02:00:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@60
# The paper's study as a Slurm array of 16 parts. Submit it in this directory, with a store that
# all nodes see, and join the parts when all of them have ended:
#
#   job=$(sbatch --parsable --export=ALL,FFS_STORE=/shared/study slurm.sh)
#   sbatch --dependency=afterok:"$job" --export=ALL,FFS_STORE=/shared/study,FFS_PARTS=16 \
#       --wrap='sh merge.sh /shared/study/whole'
set -eu

export FFS_PARTS="${FFS_PARTS:-${SLURM_ARRAY_TASK_COUNT:-16}}"
export FFS_JOBS="${FFS_JOBS:-${SLURM_CPUS_PER_TASK:-}}"
# Slurm runs a copy of this script, but in the directory of the submission.
exec sh "${SLURM_SUBMIT_DIR:-$(dirname "$0")}/part.sh"
