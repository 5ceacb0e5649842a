"""torch's own threads would wait for one another on a busy machine."""
import torch

torch.set_num_threads(1)
