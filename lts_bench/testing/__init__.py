"""The conformance suite that any agent can be put to."""

from lts_bench.testing.conformance import CHECKS, AgentConformance, CheckResult, check_agent

__all__ = ["CHECKS", "AgentConformance", "CheckResult", "check_agent"]
