"""Pipelines of scripts whose stages do not all have as many layers: Megatron-LM's four ways to say so."""

from __future__ import annotations

import pytest

from comp_comm.configs.importers.reading import import_text
from comp_comm.configs.importers.study_text import study_of
from comp_comm.errors import ConfigError
from comp_comm.sweeps.result import sweep

SCRIPT = """torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py --num-layers {layers} --hidden-size 512 \\
  --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 \\
  --global-batch-size 64 --vocab-size 32000 --bf16 --pipeline-model-parallel-size {pp} {more}
"""
INTERLEAVED = "--num-virtual-stages-per-pipeline-rank 2"


def fields_of(layers, pp, more):
    return import_text(SCRIPT.format(layers=layers, pp=pp, more=more), "train.sh").fields


@pytest.mark.parametrize(("layers", "pp", "more", "layout", "vpp"), [
    (16, 4, "", None, None),
    (14, 4, "--decoder-first-pipeline-num-layers 2", "2|4|4|4", None),
    (13, 4, "--decoder-first-pipeline-num-layers 4 --decoder-last-pipeline-num-layers 1", "4|4|4|1", None),
    (12, 4, "--decoder-first-pipeline-num-layers 3 --decoder-last-pipeline-num-layers 3", None, None),
    (20, 4, f"--decoder-last-pipeline-num-layers 2 {INTERLEAVED}", "3|3|3|1|3|3|3|1", 2),
    (14, 4, "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split", None, None),
    (15, 4, "--account-for-loss-in-pipeline-split", "4|4|4|3", None),
    (15, 4, "--account-for-embedding-in-pipeline-split", "3|4|4|4", None),
    (6, 4, "--pipeline-model-parallel-layout 'Ett|(t|)*2ttL'", "Ett|(t|)*2ttL", None),
    (7, 2, "--pipeline-model-parallel-layout 'Et|tt|tt|ttL'", "Et|tt|tt|ttL", 2),
    (8, 4, "--pipeline-model-parallel-layout 'Ett|(tt|)*2ttL'", None, None),
])  # fmt: skip
def test_stages_are_those_of_the_script(layers, pp, more, layout, vpp):
    fields = fields_of(layers, pp, more)
    assert fields.get("pp_layout") == layout
    assert fields.get("vpp") == vpp
    text = SCRIPT.format(layers=layers, pp=pp, more=more)
    study = study_of(import_text(text, "train.sh", {"attention_kernel": "flash_causal"}))
    assert sweep({**study, "hardware": "h100-sxm"}).columns["step_s"][0] > 0


@pytest.mark.parametrize(("layers", "pp", "more", "said"), [
    (14, 4, "--decoder-first-pipeline-num-layers 4", "the other 3 stages cannot share 10 layers evenly"),
    (13, 4, "--account-for-loss-in-pipeline-split", "13 layers with the loss in the place of a layer cannot be shared"),
    (8, 4, "--pipeline-model-parallel-layout 'Et|tL'", "it has 2 layers in 2 parts"),
    (8, 4, "--pipeline-model-parallel-layout 'Ex|L'", "'Ex|L'"),
    (13, 4, f"--decoder-last-pipeline-num-layers 1 {INTERLEAVED}", "cannot be cut into 2 chunks each"),
])  # fmt: skip
def test_stages_that_cannot_be_are_refused(layers, pp, more, said):
    with pytest.raises(ConfigError) as error:
        fields_of(layers, pp, more)
    assert said in str(error.value)
