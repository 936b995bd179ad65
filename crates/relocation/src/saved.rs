//! What the framework itself adds to saved work: the binding of an Actor and its Join (RL-357, RL-360).
