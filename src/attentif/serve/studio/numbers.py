"""Tensors as JSON: base64 of little-endian float32, with their shape. A page draws thousands of numbers without parsing any."""

import base64
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field
from torch import Tensor


class Numbers(BaseModel):
    """A tensor."""

    shape: list[int]
    data: Annotated[str, Field(description="base64 of little-endian float32, in C order")]

    @classmethod
    def of(cls, values: Any) -> "Numbers":
        array = values.detach().float().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
        array = np.ascontiguousarray(array, dtype="<f4")
        return cls(shape=list(array.shape), data=base64.b64encode(array.tobytes()).decode())

    def array(self) -> np.ndarray[Any, np.dtype[np.float32]]:
        return np.frombuffer(base64.b64decode(self.data), dtype="<f4").reshape(self.shape)
