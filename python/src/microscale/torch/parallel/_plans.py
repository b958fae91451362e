"""Plans: which modules of an architecture are shared out, and how."""

from __future__ import annotations

_DENSE = {"*.self_attn": "attention", "*.mlp": "mlp", "lm_head": "gathered"}
_MIXTURE = {"*.self_attn": "attention", "*.mlp.experts": "experts", "lm_head": "gathered"}

STYLES = ("attention", "mlp", "experts", "columns", "rows", "gathered")
"""attention: heads of q_proj, k_proj, v_proj, columns of o_proj, sinks. mlp: gate_proj, up_proj,
down_proj, or a GatedMlp. experts: ParallelExperts. columns, gathered: ColumnParallelLinear, without and
with gather. rows: RowParallelLinear."""

PLANS: dict[str, dict[str, str]] = {
    "llama": _DENSE,
    "mistral": _DENSE,
    "qwen2": _DENSE,
    "qwen3": _DENSE,
    "mixtral": _MIXTURE,
    "qwen3_moe": {**_MIXTURE, "*.mlp": "mlp"},  # layers without a mixture too
    "gpt_oss": _MIXTURE,
}
"""By config.model_type: patterns of module names (as of fnmatch) and the style of what they match."""
