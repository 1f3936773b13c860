"""The public data sets: publisher, files, checksums, classes and licence of each.

Checksums are the publishers' own, or those used by other libraries. The contents of MNIST and the
files of BreastMNIST, PneumoniaMNIST and RetinaMNIST were also compared with theirs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from dessl.data.formats.cifar import TRAIN_FILES, read_cifar10, read_cifar100
from dessl.data.formats.idx import read_mnist
from dessl.data.formats.medmnist import read_medmnist
from dessl.data.formats.stl10 import read_stl10
from dessl.data.formats.svhn import CHECKSUMS, read_svhn
from dessl.data.parts import Part, RawData, digit_names
from dessl.data.toy import two_uniforms

N_TEST = 360  # rows of scikit-learn's digits
SEED = 0


@dataclass(frozen=True)
class RemoteFile:
    """One file to download.

    Attributes:
        path: Path of the file, relative to the data folder.
        urls: The publisher's address, then known mirrors.
        checksum: ``"md5:..."`` of the file as downloaded.
        members: The files to extract if it is an archive, which is deleted afterwards.
    """

    path: str
    urls: tuple[str, ...]
    checksum: str
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rebuilt:
    """Files rebuilt from source images, which may replace the publisher's.

    Attributes:
        path: Path of the file or folder, relative to the data folder.
        read: Reads it, given its path.
        files: The files that a folder must contain.
    """

    path: str
    read: Callable[[Path], RawData]
    files: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The path, with the files of a folder."""
        return self.path + (f" with {' and '.join(self.files)}" if self.files else "")


@dataclass(frozen=True)
class Description:
    """One data set of the catalogue.

    Attributes:
        title: Full name.
        class_names: The classes in order.
        shape: Shape of one row: (channels, height, width), or (features,).
        sizes: Rows for training (unlabelled ones included), validation and test.
        remote: The files to download; none for sets that come with the libraries.
        read: Reads the files, given the folder that contains them.
        licence: The terms, as far as the publisher states them.
        citation: The work to cite.
        rebuilt: Files that may replace the publisher's; the first that exist are read, and
            reported as "rebuilt".
    """

    title: str
    class_names: tuple[str, ...]
    shape: tuple[int, ...]
    sizes: tuple[int, int, int]
    remote: tuple[RemoteFile, ...]
    read: Callable[[Path], RawData]
    licence: str
    citation: str
    rebuilt: tuple[Rebuilt, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The files that reading needs; a ``.gz`` file may also be unzipped."""
        return tuple(path for file in self.remote for path in file.members or (file.path,))


def read_digits(_root: Path | None = None) -> RawData:
    """Real handwritten digits, uint8 (n, 1, 8, 8): 1,437 to train on and 360 for the test part.

    scikit-learn's values 0 to 16 are rescaled to 0 to 255. The test rows are the last 360 of
    NumPy's ``default_rng(0).permutation(1797)``, without regard to the classes; rows keep the
    order of the original.

    >>> data = read_digits()
    >>> data.x.shape, int(data.x.max()), len(data.test.y)
    (torch.Size([1437, 1, 8, 8]), 255, 360)
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)[:, None]
    labels = bunch.target.astype(np.int64)
    order = np.random.default_rng(SEED).permutation(len(images))
    train, test = np.sort(order[:-N_TEST]), np.sort(order[-N_TEST:])
    parts = (Part.of_arrays(images[rows], labels[rows]) for rows in (train, test))
    return RawData(next(parts), digit_names(), test=next(parts))


def read_toy(_root: Path | None = None) -> RawData:
    """The toy example at the paper's size: 25,000 labelled points, then 25,000 unlabelled.

    >>> read_toy().x.shape
    torch.Size([50000, 1])
    """
    data = two_uniforms()
    return RawData(Part(data.x, data.y), data.class_names)


def _words(text: str, separator: str | None = None) -> tuple[str, ...]:
    return tuple(text.split(separator))


def _in(folder: str, read: Callable[[Path], RawData]) -> Callable[[Path], RawData]:
    return lambda root: read(root / folder)


def _mnist_file(name: str, md5: str) -> RemoteFile:
    hosts = (
        "http://yann.lecun.com/exdb/mnist",
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
    )
    return RemoteFile(f"mnist/{name}", tuple(f"{host}/{name}" for host in hosts), f"md5:{md5}")


def _archive(url: str, md5: str, members: str) -> RemoteFile:
    return RemoteFile(url.rsplit("/", 1)[1], (url,), f"md5:{md5}", _words(members))


def _medmnist(
    name: str,
    title: str,
    md5: str,
    classes: tuple[str, ...],
    channels: int,
    sizes: tuple[int, int, int],
    *,
    licence: str = "CC BY 4.0",
    rebuilt: bool = False,
) -> Description:
    path, read = f"medmnist/{name}.npz", partial(read_medmnist, class_names=classes)
    records = ("records/10519652", "record/6496656")
    urls = tuple(f"https://zenodo.org/{record}/files/{name}.npz?download=1" for record in records)
    return Description(
        title,
        classes,
        (channels, 28, 28),
        sizes,
        (RemoteFile(path, urls, f"md5:{md5}"),),
        _in(path, read),
        licence,
        "Yang et al., MedMNIST v2, Scientific Data 10:41, 2023",
        rebuilt=(Rebuilt(f"medmnist/{name}_rebuilt.npz", read),) if rebuilt else (),
    )


NO_LICENCE = "none stated by the publisher; research use is customary"
CIFAR10_CLASSES = _words("airplane automobile bird cat deer dog frog horse ship truck")
STL10_CLASSES = _words("airplane bird car cat deer dog horse monkey ship truck")
CIFAR100_CLASSES = _words(
    """apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus
    butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab
    crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard
    lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom
    oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
    possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake
    spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
    train trout tulip turtle wardrobe whale willow_tree wolf woman worm"""
)

DATASETS: dict[str, Description] = {
    "mnist": Description(
        "MNIST handwritten digits",
        digit_names(),
        (1, 28, 28),
        (60_000, 0, 10_000),
        (
            _mnist_file("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
            _mnist_file("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
            _mnist_file("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
            _mnist_file("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
        ),
        _in("mnist", read_mnist),
        "CC BY-SA 3.0 by common report; copyright Y. LeCun and C. Cortes",
        "LeCun, Bottou, Bengio, Haffner, Gradient-based learning applied to document recognition, "
        "Proceedings of the IEEE 86, 1998",
    ),
    "cifar10": Description(
        "CIFAR-10",
        CIFAR10_CLASSES,
        (3, 32, 32),
        (50_000, 0, 10_000),
        (
            _archive(
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                "c32a1d4ab5d03f1284b67883e8d87530",
                " ".join(
                    f"cifar-10-batches-bin/{name}"
                    for name in (*TRAIN_FILES, "test_batch.bin", "batches.meta.txt")
                ),
            ),
        ),
        _in("cifar-10-batches-bin", read_cifar10),
        NO_LICENCE,
        "Krizhevsky, Learning multiple layers of features from tiny images, 2009",
    ),
    "cifar100": Description(
        "CIFAR-100, fine labels",
        CIFAR100_CLASSES,
        (3, 32, 32),
        (50_000, 0, 10_000),
        (
            _archive(
                "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
                "03b5dce01913d631647c71ecec9e9cb8",
                "cifar-100-binary/train.bin cifar-100-binary/test.bin "
                "cifar-100-binary/fine_label_names.txt",
            ),
        ),
        _in("cifar-100-binary", read_cifar100),
        NO_LICENCE,
        "Krizhevsky, Learning multiple layers of features from tiny images, 2009",
    ),
    "svhn": Description(
        "Street View House Numbers, cropped digits",
        digit_names(),
        (3, 32, 32),
        (73_257, 0, 26_032),
        tuple(
            RemoteFile(
                f"svhn/{file}", (f"http://ufldl.stanford.edu/housenumbers/{file}",), checksum
            )
            for file, checksum in CHECKSUMS.items()
        ),
        _in("svhn", read_svhn),
        "non-commercial use only",
        "Netzer et al., Reading digits in natural images with unsupervised feature learning, 2011",
        rebuilt=(
            Rebuilt("svhn_rebuilt", partial(read_svhn, checksums=None), tuple(CHECKSUMS)),
            Rebuilt(
                "svhn_rebuilt.npz",
                partial(read_medmnist, class_names=digit_names(), validation=False),
            ),
        ),
    ),
    "stl10": Description(
        "STL-10",
        STL10_CLASSES,
        (3, 96, 96),
        (105_000, 0, 8_000),
        (
            _archive(
                "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
                "91f7769df0f17e558f3565bffb0c7dfb",
                "stl10_binary/train_X.bin stl10_binary/train_y.bin stl10_binary/unlabeled_X.bin "
                "stl10_binary/test_X.bin stl10_binary/test_y.bin stl10_binary/class_names.txt",
            ),
        ),
        _in("stl10_binary", read_stl10),
        "images from ImageNet, under its terms",
        "Coates, Lee, Ng, An analysis of single-layer networks in unsupervised feature learning, "
        "AISTATS 2011",
    ),
    "dermamnist": _medmnist(
        "dermamnist",
        "DermaMNIST: skin lesions under the dermatoscope",
        "0744692d530f8e62ec473284d019b0c7",
        _words(
            "actinic keratoses and intraepithelial carcinoma, basal cell carcinoma, benign "
            "keratosis-like lesions, dermatofibroma, melanoma, melanocytic nevi, vascular lesions",
            ", ",
        ),
        3,
        (7_007, 1_003, 2_005),
        licence="CC BY-NC 4.0",
        rebuilt=True,
    ),
    "pneumoniamnist": _medmnist(
        "pneumoniamnist",
        "PneumoniaMNIST: chest X-rays of children",
        "28209eda62fecd6e6a2d98b1501bb15f",
        ("normal", "pneumonia"),
        1,
        (4_708, 524, 624),
    ),
    "retinamnist": _medmnist(
        "retinamnist",
        "RetinaMNIST: grades of diabetic retinopathy",
        "bd4c0672f1bba3e3a89f0e4e876791e4",
        digit_names(5),
        3,
        (1_080, 120, 400),
    ),
    "breastmnist": _medmnist(
        "breastmnist",
        "BreastMNIST: breast ultrasound",
        "750601b1f35ba3300ea97c75c52ff8f6",
        ("malignant", "normal, benign"),
        1,
        (546, 78, 156),
    ),
    "bloodmnist": _medmnist(
        "bloodmnist",
        "BloodMNIST: blood cells under the microscope",
        "7053d0359d879ad8a5505303e11de1dc",
        _words(
            "basophil, eosinophil, erythroblast, immature granulocytes, lymphocyte, monocyte, "
            "neutrophil, platelet",
            ", ",
        ),
        3,
        (11_959, 1_712, 3_421),
        rebuilt=True,
    ),
    "digits": Description(
        "scikit-learn's digits, 8 × 8",
        digit_names(),
        (1, 8, 8),
        (1_437, 0, 360),
        (),
        read_digits,
        "CC BY 4.0",
        "Alpaydin, Kaynak, Optical recognition of handwritten digits, UCI, 1998",
    ),
    "toy": Description(
        "Two overlapping uniform distributions on the line",
        digit_names(2),
        (1,),
        (50_000, 0, 0),
        (),
        read_toy,
        "none needed: generated",
        "Schmutz, Humbert, Mattei, Don't fear the unlabelled, ICLR 2023",
    ),
}
