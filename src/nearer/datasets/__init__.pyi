from ._catalog import dataset_names as dataset_names
from ._catalog import load as load
from ._dataset import Dataset as Dataset
from ._dataset import Split as Split
from ._files import load_files as load_files
from ._files import load_image_folder as load_image_folder
from ._splits import class_disjoint_split as class_disjoint_split
from ._splits import few_labels as few_labels
from ._splits import stratified_split as stratified_split

__all__ = [
    "Dataset",
    "Split",
    "class_disjoint_split",
    "dataset_names",
    "few_labels",
    "load",
    "load_files",
    "load_image_folder",
    "stratified_split",
]
