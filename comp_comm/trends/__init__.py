"""What became of the forecasts of Comp-vs-Comm (arXiv:2302.02825): devices and trained models from 2016 to 2027."""
