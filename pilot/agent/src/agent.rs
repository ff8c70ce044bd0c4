//! `pilot-agent proxy`: the parts of the agent, wired together.
