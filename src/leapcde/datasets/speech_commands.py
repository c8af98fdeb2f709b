"""Speech Commands: one-second recordings of single words, as 161 frames of 20 mel-frequency cepstral coefficients.

Read from what lies below DATA_DIR/speech_commands, the first of: a folder with a folder of wavs for each word; the
official archive `speech_commands_v0.02.tar.gz` (or v0.01); coefficients that somebody computed with the same settings,
`mfcc_*.npz` (x, y, words, speaker); any other `.tar.gz` of wavs. Of several, the first that has all words asked for: by
default the paper's ten. Clips that are not 16,000 samples long are left out, as in the published experiments.
"""

from __future__ import annotations

import io
import warnings
import wave
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

import numpy as np
from scipy.fft import dct

from leapcde.data.series import Series
from leapcde.data.split import split
from leapcde.datasets._io.archive import tar_files
from leapcde.datasets._io.cache import Made, prepared
from leapcde.datasets.registry import register_dataset
from leapcde.datasets.source import About, Download, Parts, PublishedNumber, Read, Source, stratified
from leapcde.errors import InputError, LeapWarning, MissingDependencyError, Problems, need

FOLDER = "speech_commands"
ARCHIVE = "speech_commands_v0.02.tar.gz"
ADDRESS = "https://storage.googleapis.com/download.tensorflow.org/data"
SHA256 = "af14739ee7dc311471de98f5f9d2c9191b18aedfe957f4a6ff791c709868ff58"  # as in TensorFlow Datasets
VERSION = 1
PAPER = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
RATE, SAMPLES = 16_000, 16_000
WINDOW, HOP, MELS, KEPT = 200, 100, 64, 20  # the published settings: 12.5 ms windows, every 6.25 ms
FRAMES = SAMPLES // HOP + 1
CHANNELS = tuple(f"mfcc {i}" for i in range(KEPT))
AT_ONCE = 500  # clips transformed together
TOLERANCE = 0.004  # what sums in single precision may differ by, after the logarithm, in coefficients of up to 100


@dataclass(frozen=True)
class Options:
    words: str = "auto"  # comma-separated, or "paper" (its ten), or "all"; auto: the paper's ten if they are there, else all
    source: Literal["auto", "wav", "mfcc"] = "auto"
    split: Literal["stratified", "speaker"] = "stratified"  # speaker: nobody is heard in two splits


def read(data_dir: Path, options: Options) -> Read:
    found = _series(data_dir, options)
    if options.words == "auto" and set(found.notes["words"]) != set(PAPER):
        taken = f"{found.notes['file']} lacks some of the paper's ten words; taken instead: {', '.join(found.notes['words'])}"
        warnings.warn(taken, LeapWarning, stacklevel=4)
    return found


def _series(data_dir: Path, options: Options) -> Read:
    source = files(data_dir, options)[0]
    settings = {"version": VERSION, "words": options.words}
    arrays, notes = prepared("speech", [source], settings, data_dir, lambda: prepare(source, options.words))
    offsets = np.arange(len(arrays["x"]) + 1) * FRAMES
    values = arrays["x"].reshape(-1, KEPT)
    times = np.tile(np.arange(FRAMES, dtype=float), len(arrays["x"]))
    target = np.array(notes["words"])[arrays["y"]]
    return Read(Series(times, values, offsets, CHANNELS, target, ids=arrays["speaker"]), {**notes, "file": source.name})


def files(data_dir: Path, options: Options | None = None) -> list[Path]:
    """The one file or folder to read, or an error that says what was looked for."""
    home, kind = data_dir / FOLDER, options.source if options else "auto"
    official = [home / f"speech_commands_v0.0{v}.tar.gz" for v in (2, 1)]
    folders = [path for path in (home, home / "speech_commands_v0.02") if any(path.glob("*/*_nohash_*.wav"))]
    tars = [path for path in sorted(home.glob("*.tar.gz")) if path not in official]
    ready = sorted(home.glob("mfcc_*.npz"))
    found = {
        "auto": [*folders, *official, *ready, *tars],
        "wav": [*folders, *official, *tars],
        "mfcc": ready,
    }[kind]
    there = [path for path in found if path.exists()]
    if not there:
        raise InputError(
            f"no Speech Commands ({kind}) in {home}: neither folders of wavs, nor {official[0].name}, nor mfcc_*.npz; "
            "get them with 'leapcde data fetch speech-commands'"
        )
    wanted = _wanted(options.words if options else "auto")
    whole = lambda path: len(there) == 1 or not wanted or path in official or wanted <= _spoken(path)
    return [next(filter(whole, there), there[0])]


def _spoken(source: Path) -> frozenset[str]:
    """The words that a file or folder has clips of, as far as a look at its names tells. What cannot be read has none: if it
    is read after all, the error says why."""
    try:
        if source.suffix == ".npz":
            with np.load(source, allow_pickle=False) as found:
                return frozenset(found["words"].tolist())
        if source.is_dir():
            return frozenset(file.parent.name for file in source.glob("*/*_nohash_*.wav"))
        return frozenset(_word(name) for name, _ in tar_files(source, lambda name: name.endswith(".wav")))
    except (OSError, ValueError, KeyError, EOFError, zlib.error, zipfile.BadZipFile):
        return frozenset()


def prepare(source: Path, asked: str) -> Made:
    """x (clip, frame, coefficient), y (index into the words), speaker; clips in the order of word and file name."""
    if source.suffix == ".npz":
        return _from_npz(source, asked)
    found = _clips(source, _wanted(asked))
    if asked == "auto" and {_word(name) for name in found.names} != set(PAPER):
        found = _clips(source, frozenset())  # the paper's words are not all there: take what is
    words = _words(asked, {_word(name) for name in found.names}, source)
    order = np.argsort(found.names)  # never the order of a file system, which would change the split
    names = [found.names[i] for i in order]
    y = np.array([words.index(_word(name)) for name in names], np.int32)
    speaker = np.array([PurePosixPath(name).name.split("_nohash_")[0] for name in names])
    return {"x": found.x[order], "y": y, "speaker": speaker}, {"words": list(words), "other_lengths": found.other}


class _Clips(NamedTuple):
    x: np.ndarray
    names: list[str]
    other: int  # clips that are not one second long


def _clips(source: Path, wanted: frozenset[str]) -> _Clips:
    """The coefficients of all clips of the wanted words, block by block: the sound of all would not fit into memory."""
    parts, names, other = [], [], 0
    clips = ((name, read_wav(content, f"{source}/{name}")) for name, content in _wavs(source, wanted))
    while block := list(islice(clips, AT_ONCE)):
        right = [(name, clip) for name, clip in block if len(clip) == SAMPLES]
        other += len(block) - len(right)
        names += [name for name, _ in right]
        parts += [mfcc(np.stack([clip for _, clip in right]))] if right else []
    return _Clips(np.concatenate([np.zeros((0, FRAMES, KEPT), np.float32), *parts]), names, other)


def mfcc(clips: np.ndarray) -> np.ndarray:
    """Coefficients of clips (clip, 16,000) of 16-bit samples: float32 (clip, 161, 20).

    Power spectra of centred Hann windows, 64 mel bands on the HTK scale, log(mel + 1e-6), orthonormal DCT-II, 20 kept;
    not normalised. Windows of 200 samples cannot resolve the lowest bands, so some are empty; that is how it was published.

    >>> mfcc(np.zeros((1, 16_000), np.int16)).shape  # doctest: +SKIP
    (1, 161, 20)
    """
    librosa = need("librosa", "audio")
    sound = clips.astype(np.float32) / 2**15
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Empty filters detected")
        mel = librosa.feature.melspectrogram(
            y=sound, sr=RATE, n_fft=WINDOW, hop_length=HOP, pad_mode="reflect", n_mels=MELS, htk=True, norm=None
        )
    bands = np.asarray(dct(np.log(mel + 1e-6), type=2, norm="ortho", axis=1))
    return bands[:, :KEPT].swapaxes(1, 2).astype(np.float32)


def read_wav(content: bytes, where: str) -> np.ndarray:
    """The samples of a wav: 16 bits, one channel, 16 kHz."""
    try:
        with wave.open(io.BytesIO(content)) as file:
            form = (file.getnchannels(), file.getsampwidth(), file.getframerate())
            promised, data = file.getnframes(), file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise InputError(f"{where}: not a wav, or cut off ({str(error) or 'the header ends early'})") from None
    if form != (1, 2, RATE):
        channels, width, rate = form
        raise InputError(f"{where}: {channels} channels of {8 * width} bits at {rate} Hz; expected 1 of 16 bits at {RATE} Hz")
    if not data or len(data) < 2 * promised:
        raise InputError(f"{where}: {len(data) // 2} samples, the header promises {promised or 'none'}; the file is cut off")
    return np.frombuffer(data, "<i2")


def split_words(series: Series, options: Options) -> Parts:
    return split(series, by_id=True) if options.split == "speaker" else stratified(series, options)


def compare(ours: Series, theirs: Series) -> tuple[int, float]:
    """How many clips of the same word and speaker are in both, and by how much they differ beyond rounding to 16 bits.

    The file of coefficients does not name its clips. Different clips of one speaker are tens apart, so those nearer than
    one are the same.
    """
    x, other = (np.asarray(series.values).reshape(-1, FRAMES, KEPT) for series in (ours, theirs))
    spoken: dict[tuple[str, str], list[int]] = {}
    for j, key in enumerate(_who(theirs)):
        spoken.setdefault(key, []).append(j)
    matched, worst = 0, 0.0
    for i, key in enumerate(_who(ours)):
        candidates = other[spoken.get(key, [])]
        apart = np.abs(candidates - x[i])
        if len(apart) and apart.max((1, 2)).min() < 1:
            best = int(apart.max((1, 2)).argmin())
            rounding = np.spacing(np.abs(candidates[best]).astype(np.float16)).astype(np.float32) / 2
            matched, worst = matched + 1, max(worst, float((apart[best] - rounding).max()))
    return matched, worst


def _who(series: Series) -> Iterator[tuple[str, str]]:
    """Word and speaker of each clip."""
    return zip(np.asarray(series.target).tolist(), np.asarray(series.ids).tolist(), strict=True)


def checks(data_dir: Path, options: Options) -> Iterator[tuple[str, bool | None, str]]:
    """Where both wavs and coefficients are there, the clips that are in both must be equal."""
    what = "wavs give the supplied coefficients"
    try:
        pair = [_series(data_dir, replace(options, source=source))[0] for source in ("wav", "mfcc")]
    except (InputError, MissingDependencyError) as error:
        yield what, None, f"not compared: {error.what}"
        return
    matched, worst = compare(*pair)
    detail = f"{matched} clips are in both, at most {worst:.4f} apart beyond the rounding to float16"
    yield what, (worst <= TOLERANCE if matched else None), detail


def _wavs(source: Path, wanted: frozenset[str]) -> Iterator[tuple[str, bytes]]:
    """(word/file.wav, content); words are folders, and those that start with _ hold noise."""

    def right(name: str) -> bool:
        word = _word(name)
        return name.endswith(".wav") and "_nohash_" in name and not word.startswith("_") and (not wanted or word in wanted)

    if source.is_dir():
        found = [(f"{file.parent.name}/{file.name}", file) for file in source.glob("*/*.wav")]
        yield from ((name, file.read_bytes()) for name, file in found if right(name))
    else:
        for name, blocks in tar_files(source, right):
            yield f"{_word(name)}/{PurePosixPath(name).name}", b"".join(blocks)


def _word(name: str) -> str:
    return PurePosixPath(name).parent.name


def _wanted(asked: str) -> frozenset[str]:
    """The words to read first; an empty set means all."""
    if asked == "all":
        return frozenset()
    return frozenset(PAPER if asked in ("auto", "paper") else _listed(asked))


def _listed(asked: str) -> list[str]:
    return [word.strip() for word in asked.split(",") if word.strip()]


def _words(asked: str, there: set[str], source: Path) -> tuple[str, ...]:
    """The classes, in the order asked for."""
    if asked == "all" or (asked == "auto" and not set(PAPER) <= there):
        return tuple(sorted(there))
    words = PAPER if asked in ("auto", "paper") else tuple(dict.fromkeys(_listed(asked)))
    problems = Problems()
    for word in words:
        if word not in there:
            problems.add(f"no clips of {word!r}; there are: {', '.join(sorted(there)) or 'none of those asked for'}")
    if len(words) < 2:
        problems.add(f"words={asked!r} names fewer than two words")
    problems.raise_if_any(f"cannot use {source} for the words asked for")
    return words


def _from_npz(source: Path, asked: str) -> Made:
    try:
        with np.load(source, allow_pickle=False) as found:
            x, y, names, speaker = (found[key] for key in ("x", "y", "words", "speaker"))
    except (OSError, ValueError, KeyError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise InputError(f"cannot read {source}: truncated, or not x, y, words, speaker ({error})") from error
    fits = x.shape[1:] == (FRAMES, KEPT) and len(x) == len(y) == len(speaker) and len(x) > 0
    if not fits or y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= len(names) or not np.isfinite(x).all():
        raise InputError(f"{source}: x {x.shape}, y {y.shape}, speaker {speaker.shape} do not fit (clip, {FRAMES}, {KEPT})")
    words = _words(asked, set(names.tolist()), source)
    new = np.array([words.index(word) if word in words else -1 for word in names.tolist()])[y]
    order = np.lexsort((np.arange(len(y)), speaker, new))
    order = order[new[order] >= 0]
    arrays = {"x": x[order].astype(np.float32), "y": new[order].astype(np.int32), "speaker": speaker[order]}
    return arrays, {"words": list(words), "other_lengths": 0}


SOURCE = register_dataset(
    Source(
        name="speech-commands",
        task="classification",
        options=Options,
        files=files,
        downloads=(Download(f"{ADDRESS}/{ARCHIVE}", Path(FOLDER, ARCHIVE), SHA256),),
        read=read,
        split=split_words,
        checks=checks,
        about=About(
            title="Speech Commands: single words, one second each",
            licence="Creative Commons Attribution 4.0",
            citation="Warden, Speech Commands: A Dataset for Limited-Vocabulary Speech Recognition, arXiv:1804.03209, 2018",
            page="https://arxiv.org/abs/1804.03209",
            figures=(
                PublishedNumber("frames", 161, lambda series: int(series.lengths.max())),
                PublishedNumber("coefficients", 20, lambda series: len(series.channels)),
                PublishedNumber(
                    "words", 10, lambda series: len(np.unique(np.asarray(series.target))), "other words were asked for"
                ),
                PublishedNumber(
                    "clips of one second", 34_975, len, "34,975 is v0.02 with the paper's ten words; this is another selection"
                ),
            ),
        ),
    )
)
