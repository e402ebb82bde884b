//! What the keeper asks for, step by step.
