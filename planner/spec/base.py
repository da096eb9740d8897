"""The base of every section of a spec, and the types its fields are made of."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, WrapValidator, model_validator
from pydantic_core import PydanticCustomError

from planner.spec.units import fraction, seconds

# No size or length comes near this; sums and products of a few of them stay exact everywhere.
LARGEST_COUNT = 1_000_000_000

Count = Annotated[int, Field(strict=True, gt=0, le=LARGEST_COUNT)]
Natural = Annotated[int, Field(strict=True, ge=0, le=LARGEST_COUNT)]
Flag = Annotated[bool, Field(strict=True)]
Real = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False), BeforeValidator(seconds)]
Fraction = Annotated[float, Field(strict=True, ge=0, lt=1, allow_inf_nan=False), BeforeValidator(fraction)]
PartOfOne = Annotated[float, Field(strict=True, gt=0, lt=1, allow_inf_nan=False), BeforeValidator(fraction)]

Dtype = Literal["float32", "bf16", "int8"]
_DTYPE: TypeAdapter[Dtype] = TypeAdapter(Dtype)


def one_or_several(value: Any, _: Any) -> Dtype | tuple[Dtype, ...]:
    """A dtype, or those that may be chosen from."""
    if not isinstance(value, list | tuple):
        return _DTYPE.validate_python(value)
    if not value:
        raise PydanticCustomError("choice", "", {"problem": "must name one dtype at least", "hint": None})
    found = tuple(_DTYPE.validate_python(each) for each in value)
    if twice := [each for each in dict.fromkeys(found) if found.count(each) > 1]:
        raise PydanticCustomError("choice", "", {"problem": f"names {twice[0]} twice", "hint": None})
    return found


Dtypes = Annotated[Dtype | tuple[Dtype, ...], WrapValidator(one_or_several)]
"""A dtype, or a list of those that the solver may choose from."""


class Section(BaseModel):
    """A frozen part of a spec; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def filled(cls, data: dict[str, Any]) -> dict[str, Any]:
        """`data` with the defaults that follow from other fields."""
        return data

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        return cls.filled(data) if isinstance(data, dict) else data
