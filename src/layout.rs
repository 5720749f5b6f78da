//! Where the tokens of a frame lie: pure functions from extent, budget and fixation to a plan.
