"""Recorded selections: a file format, a recorder, and replays that compare placement policies."""

from nearkv.trace.format import Trace, TraceError, TraceInfo, load, save
from nearkv.trace.replay import Replay, replay, replay_all

__all__ = ["Replay", "Trace", "TraceError", "TraceInfo", "load", "replay", "replay_all", "save"]
