"""Readers of ADBench data files, and the small files that ship with futad."""

from futad.datasets.adbench import (
    Ba,
    Gmm,
    Hand,
    HandModel,
    Lstm,
    read_ba,
    read_gmm,
    read_hand,
    read_hand_model,
    read_lstm,
)

__all__ = [
    "Ba",
    "Gmm",
    "Hand",
    "HandModel",
    "Lstm",
    "read_ba",
    "read_gmm",
    "read_hand",
    "read_hand_model",
    "read_lstm",
]
