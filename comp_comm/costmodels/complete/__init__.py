"""A whole training step under every parallelism, with memory.

Start with `step.py`: a `Step` has its parts, each made when it is asked for.

Examples
--------
Llama 3 8B on 64 H100: tensor parallelism 4, four pipeline stages, four replicas, 64 sequences a step.

>>> from comp_comm.configs.hardware_file import load_profile
>>> from comp_comm.costmodels.scenario import Scenario
>>> from comp_comm.layout import Layout
>>> from comp_comm.transformer import Transformer
>>> llama = Transformer(4096, 8192, layers=32, heads=32, kv_heads=8, ffn_hidden=14336, gated=1, vocab=128256)
>>> h100 = load_profile("h100-sxm").hardware("bf16")
>>> step = MODEL.evaluate(Scenario(llama, Layout(gpus=64, tp=4, pp=4, global_batch=64), h100))

`Work` is what has to be done: which layers, on which stages, how many micro-batches.

>>> (kind,), micro_batches = step.work.pattern.kinds, step.work.accumulation
>>> f"{float(step.work.pattern.totals[0]):.0f} layers; a replica does {micro_batches:.0f} micro-batches"
'32 layers; a replica does 16 micro-batches'

`LayerCosts` times a layer of each kind, `Pipeline` adds layers up to stages, of which the slowest sets the pace: here
the last one, which has logits and loss. `Bubble` is how long it waits for the others.

>>> layer, slowest = step.layer_costs.times[kind], step.slowest_stage
>>> f"{float(slowest.layer_counts[0]):.0f} layers, head: {bool(slowest.head)}"
'8 layers, head: True'
>>> bool(step.pipeline.pace_s > 8 * (layer.forward_pass_s + layer.backward_pass_s))
True

After the passes, `StateCosts` has the optimizer and the collectives of gradients and weights, `StepComm` what of them
shows, and what is sent between stages. Together they are the step:

>>> comm = step.communication
>>> step_s = micro_batches * step.pipeline.pace_s + comm.sends_visible_s + step.bubble_s
>>> step_s = step_s + step.optimizer_s + comm.states_comm.visible + sum(comm.after_passes_s.values())
>>> bool(abs(step_s - step.step_s) < 1e-9)
True

`Footprint` is the memory of the fullest stage, here the first one: it has the activations of four micro-batches.

>>> parts = step.footprint.parts
>>> f"{parts.activations / 4 / 8 / 2**20:.0f} MiB of activations a layer; no logits: {bool(parts.logits == 0)}"
'289 MiB of activations a layer; no logits: True'
"""

from comp_comm.costmodels.complete.model import MODEL

__all__ = ["MODEL"]
