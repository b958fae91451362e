"""Models of Hugging Face's transformers on packed weights, and a 4-bit cache for generate.

    import microscale.transformers as mstf
    model = AutoModelForCausalLM.from_pretrained(folder)      # compressed-tensors: NVFP4, MXFP4, MXFP8
    print(mstf.accelerate(model))                             # what runs packed; what was left, and why
    model.generate(**inputs, past_key_values=mstf.Cache(max_tokens=2048))

    AutoModelForCausalLM.from_pretrained(dense, quantization_config=mstf.MicroscaleConfig("nvfp4"))

Needs transformers 5.10 or newer and torch 2.10 or newer.
"""

try:
    import transformers as _transformers
    from transformers.cache_utils import DynamicLayer as _  # noqa: F401
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS as _  # noqa: F401, F811
except ImportError as error:
    raise ImportError(
        "microscale.transformers needs transformers 5.10 or newer: pip install 'transformers>=5.10'"
    ) from error

from ._accelerate import Accelerated, accelerate
from ._attention import register as _register
from ._cache import Cache
from ._calibration import Calibration, calibrate
from ._evaluation import Evaluation, evaluate
from ._load import from_pretrained
from ._quantizer import MicroscaleConfig
from ._quantizer import register as _register_method
from ._rotation import Rotation, rotate

_register()
_register_method()

__all__ = [
    "Accelerated",
    "Cache",
    "Calibration",
    "Evaluation",
    "MicroscaleConfig",
    "Rotation",
    "accelerate",
    "calibrate",
    "evaluate",
    "from_pretrained",
    "rotate",
]
