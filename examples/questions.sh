#!/bin/sh
# Questions an architect asks, one command each. Run it with: sh examples/questions.sh
set -e

# How much faster must the network be for 20 % serialized communication at H = 64K, SL = 4K, TP = 256?
compcomm solve --target serialized_comm_fraction=0.2 --for network --hidden 64K --seq-len 4K --micro-batch 1 --tp 256

# From which sequence length on is data-parallel communication hidden, at TP = 16?
compcomm solve --target overlap_ratio=1 --for seq_len --hidden 16K --micro-batch 1 --tp 16

# How far did FLOP/s run ahead of the scale-up and the scale-out network from one product to the next?
compcomm hardware ratio v100-sxm-32gb a100-sxm-80gb
compcomm hardware ratio a100-sxm-80gb h100-sxm

# Which TP does a model of 10^12 parameters need on devices with six times the memory of the base model's?
compcomm required-tp --parameters 1e12 --memory-scaling 6
