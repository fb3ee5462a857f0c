"""Read the files that `torch.export.save` writes, without torch and without unpickling."""

from lastbit.importers.pt2.reader import read_pt2 as read_pt2
