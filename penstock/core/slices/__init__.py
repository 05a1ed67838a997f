"""Pure logic of slices: the lifecycle state machine, the diff of a watch, and the comparison of an audit."""
