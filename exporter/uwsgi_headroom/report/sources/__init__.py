"""Where the data of a review comes from: a Prometheus, or history files. Both deliver `quarters.ReviewData`."""
