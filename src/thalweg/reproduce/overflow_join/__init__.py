"""The N-way join in less memory than its windows need, in the three phases of MJoin's experiments."""
