"""The base of every section of a spec, and the types its fields are made of."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from planner.spec.units import fraction, seconds

Count = Annotated[int, Field(strict=True, gt=0)]
Natural = Annotated[int, Field(strict=True, ge=0)]
Flag = Annotated[bool, Field(strict=True)]
Real = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Seconds = Annotated[float, BeforeValidator(seconds), Field(strict=True, gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, BeforeValidator(fraction), Field(strict=True, ge=0, lt=1, allow_inf_nan=False)]

Dtype = Literal["float32", "bf16", "int8"]


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
