"""Speech Commands: wavs and supplied coefficients give the same data, and broken files are named."""

from __future__ import annotations

import io
import tarfile
import wave
from pathlib import Path

import numpy as np
import pytest

from leapcde.data.series import Series
from leapcde.datasets import registry as datasets
from leapcde.datasets import speech_commands as speech
from leapcde.errors import InputError, LeapWarning
from leapcde_paper.rows import OTHER_WORDS

RNG = np.random.default_rng(0)
ALL = speech.Options(words="all")


def wav(samples: int = 16_000, *, rate: int = 16_000, channels: int = 1, width: int = 2) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(RNG.integers(-9000, 9000, samples * channels).astype("<i2").tobytes()[: samples * channels * width])
    return file.getvalue()


def make(folder: Path, files: dict[str, bytes], name: str = "speech_commands_v0.02.tar.gz", root: str = "./") -> Path:
    (folder / "speech_commands").mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / "speech_commands" / name, "w:gz") as out:
        for place, content in files.items():
            info = tarfile.TarInfo(root + place)
            info.size = len(content)
            out.addfile(info, io.BytesIO(content))
    return folder


def clips(*words: str, each: int = 2) -> dict[str, bytes]:
    return {f"{word}/{speaker:08x}_nohash_0.wav": wav() for word in words for speaker in range(each)}


@pytest.fixture(scope="module")
def both() -> dict:
    return {}


@pytest.fixture
def real(data_dir, both):
    if not both:
        for source in ("wav", "mfcc"):
            both[source] = speech.read(Path(data_dir), speech.Options(source=source, words="all")).series
    return both


# The real files


def test_wavs_give_the_supplied_coefficients(real):
    """Clips in both (143; the file does not name its clips) are equal up to the file's 16 bits."""
    matched, worst = speech.compare(real["wav"], real["mfcc"])
    assert matched == 143 and worst < speech.TOLERANCE
    ours = real["wav"].take([0, 1])
    off = Series(ours.times, ours.values + 0.1, ours.offsets, ours.channels, ours.target, ids=ours.ids)
    assert speech.compare(off, ours)[1] > speech.TOLERANCE  # the comparison sees a tenth


def test_both_sources_make_the_same_kind_of_data(real):
    for name, count in (("wav", 500), ("mfcc", 5000)):
        series = real[name]
        assert len(series) == count and set(series.lengths) == {161} and series.channels == speech.CHANNELS
        assert series.values.dtype == np.float32 and len(set(series.target)) == 10
        assert series.times[:161].tolist() == list(range(161))
    assert set(real["wav"].target) == set(real["mfcc"].target)


def test_coefficients_against_a_slow_oracle(real, data_dir):
    """The definition, written out: one frame at a time, the mel scale from its formula."""
    with tarfile.open(Path(data_dir) / "speech_commands" / "speech_commands_sample.tar.gz") as file:
        name = sorted(file.getnames())[0]
        sound = np.frombuffer(file.extractfile(name).read()[-32_000:], "<i2") / 2**15
    padded = np.pad(sound, 100, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(200) / 200)
    mel = lambda f: 2595 * np.log10(1 + f / 700)
    edges = 700 * (10 ** (np.linspace(0, mel(8000), 66) / 2595) - 1)
    bins = np.arange(101) * 80.0
    rise, fall = [(bins - edges[i : i + 64, None]) / np.diff(edges)[i : i + 64, None] for i in (0, 1)]
    bank = np.maximum(0, np.minimum(rise, 1 - fall))
    n = np.arange(64)
    basis = np.cos(np.pi * np.arange(20)[:, None] * (2 * n + 1) / 128) * np.sqrt(2 / 64)
    basis[0] /= np.sqrt(2)
    for frame in (0, 80, 160):
        power = np.abs(np.fft.rfft(window * padded[100 * frame : 100 * frame + 200])) ** 2
        expected = basis @ np.log(bank @ power + 1e-6)
        np.testing.assert_allclose(real["wav"].sample(0)[1][frame], expected, atol=2e-3)


def test_default_words_and_sources_on_the_real_files(data_dir):
    """Of several files the first with all words asked for is read; by default these are the paper's ten."""
    file = lambda **options: speech.files(Path(data_dir), speech.Options(**options))[0].name
    assert file() == file(words="paper") == "mfcc_paper_words_1980each.npz"
    assert file(source="wav") == "wavs_paper_words_50each.tar.gz"
    assert file(words="all") == file(words="left, zero") == "mfcc_10words_500each.npz"
    other = datasets.load("speech-commands", data_dir=data_dir, **OTHER_WORDS)
    assert other.options["file"] == "mfcc_10words_500each.npz" and [len(part) for part in other.parts.values()] == [
        3500,
        750,
        750,
    ]
    three = datasets.load("speech-commands", data_dir=data_dir, words="left, go,down", source="wav")
    assert three.options["words"] == ["left", "go", "down"] and set(three.train.target) == {"left", "go", "down"}


def test_the_paper_words_from_wavs(data_dir):
    found = speech.read(Path(data_dir), speech.Options(source="wav"))
    words, count = np.unique(np.asarray(found.series.target), return_counts=True)
    assert set(words) == set(speech.PAPER) and set(count) == {50} and found.notes["words"] == list(speech.PAPER)


@pytest.mark.slow
def test_the_paper_words_as_coefficients(data_dir):
    """19,800 clips, no speaker on two sides if asked for, and the wavs that are there give the same numbers."""
    apart = datasets.load("speech-commands", data_dir=data_dir, split="speaker")
    assert sum(map(len, apart.parts.values())) == 19_800 and apart.options["words"] == list(speech.PAPER)
    speakers = [set(part.ids.tolist()) for part in apart.parts.values()]
    assert not speakers[0] & speakers[1] and not speakers[0] & speakers[2] and not speakers[1] & speakers[2]
    ((_, fits, detail),) = speech.checks(Path(data_dir), speech.Options())
    assert fits and detail.startswith("500 clips are in both")


def test_where_no_file_has_the_paper_words_all_are_taken_and_said(tmp_path):
    home = tmp_path / "speech_commands"
    home.mkdir()
    np.savez(home / "mfcc_b.npz", **arrays())
    with pytest.warns(LeapWarning, match="lacks some of the paper's ten words; taken instead: a, b"):
        speech.read(tmp_path, speech.Options())
    with pytest.raises(InputError, match="no clips of 'yes'; there are: a, b"):
        speech.read(tmp_path, speech.Options(words="paper"))


def test_a_damaged_file_beside_a_good_one(tmp_path):
    """Who asks for words that the good file has gets them; who asks for none in particular is told of the damage."""
    home = tmp_path / "speech_commands"
    home.mkdir()
    np.savez(home / "mfcc_b.npz", **arrays())
    (home / "mfcc_a.npz").write_bytes(b"no archive")
    assert len(speech.read(tmp_path, speech.Options(words="a,b")).series) == 4
    with pytest.raises(InputError, match=r"mfcc_a\.npz"):
        speech.read(tmp_path, ALL)


def test_speaker_split_keeps_every_speaker_on_one_side(data_dir):
    apart = datasets.load("speech-commands", data_dir=data_dir, words="all", split="speaker")
    speakers = [set(part.ids.tolist()) for part in apart.parts.values()]
    assert not speakers[0] & speakers[1] and not speakers[0] & speakers[2] and not speakers[1] & speakers[2]
    assert apart.options["split"] == "70/15/15 speaker"
    mixed = datasets.load("speech-commands", data_dir=data_dir, words="all")
    assert set(mixed.train.ids.tolist()) & set(mixed.test.ids.tolist())


# What the paper does


def test_official_layout(tmp_path):
    files = clips(*speech.PAPER, "cat") | {"_background_noise_/hum.wav": wav(20), "LICENSE": b"text"}
    files |= {"yes/0000000a_nohash_1.wav": wav(15_999)}
    found = speech.read(make(tmp_path, files), speech.Options())
    assert len(found.series) == 20 and found.notes["other_lengths"] == 1 and found.notes["words"] == list(speech.PAPER)
    assert len(speech.read(tmp_path, speech.Options(words="all")).series) == 22


def test_order_does_not_depend_on_the_archive_or_the_file_system(tmp_path):
    files = clips("yes", "no", each=3)
    one = speech.read(make(tmp_path / "a", files), ALL).series
    two = speech.read(make(tmp_path / "b", dict(reversed(files.items())), root=""), ALL).series
    home = tmp_path / "c" / "speech_commands"
    for place, content in files.items():
        (home / place).parent.mkdir(parents=True, exist_ok=True)
        (home / place).write_bytes(content)
    three = speech.read(tmp_path / "c", ALL).series
    for other in (two, three):
        assert other.ids.tolist() == one.ids.tolist() and other.target.tolist() == one.target.tolist()
        np.testing.assert_allclose(other.values, one.values, atol=1e-4)


# Broken files


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (wav(0), "0 samples"),
        (wav()[:44], "0 samples, the header promises 16000"),
        (wav()[:20_000], "the file is cut off"),
        (wav()[:30], "not a wav, or cut off"),
        (b"", "not a wav, or cut off"),
        (b"text" * 100, "not a wav"),
        (wav(rate=8000), "at 8000 Hz; expected"),
        (wav(channels=2), "2 channels"),
        (wav(width=1), "8 bits"),
    ],
)
def test_broken_wavs_are_named(tmp_path, content, message):
    make(tmp_path, clips("yes", "no") | {"no/0000000b_nohash_0.wav": content})
    with pytest.raises(InputError, match=message) as caught:
        speech.read(tmp_path, ALL)
    assert "speech_commands_v0.02.tar.gz/no/0000000b_nohash_0.wav: " in str(caught.value)


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
def test_truncated_tar(tmp_path, keep):
    path = make(tmp_path, clips("yes", "no")) / "speech_commands" / "speech_commands_v0.02.tar.gz"
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(InputError, match=r"v0\.02\.tar\.gz.*download it again"):
        speech.read(tmp_path, ALL)


def test_tar_with_a_name_that_points_outside(tmp_path):
    make(tmp_path, {"../yes/0000000b_nohash_0.wav": wav()}, root="")
    with pytest.raises(InputError, match="points outside"):
        speech.read(tmp_path, ALL)


def arrays(**other) -> dict:
    return {
        "x": np.zeros((4, 161, 20), np.float16),
        "y": np.array([0, 0, 1, 1]),
        "words": np.array(["a", "b"]),
        "speaker": np.array(["s", "t", "s", "u"]),
    } | other


@pytest.mark.parametrize(
    "wrong",
    [
        {"x": np.zeros((4, 160, 20))},
        {"x": np.zeros((3, 161, 20))},
        {"x": np.full((4, 161, 20), np.inf)},
        {"y": np.array([0, 0, 1, 2])},
        {"y": np.array([0, 0, -1, 1])},
        {"speaker": np.array(["s"])},
        {"speaker": np.array([None] * 4)},
    ],
)
def test_coefficients_that_do_not_fit(tmp_path, wrong):
    home = tmp_path / "speech_commands"
    home.mkdir()
    np.savez(home / "mfcc_try.npz", **arrays())
    assert speech.read(tmp_path, ALL).series.target.tolist() == ["a", "a", "b", "b"]
    np.savez(home / "mfcc_try.npz", **arrays(**wrong))
    with pytest.raises(InputError, match=r"mfcc_try\.npz"):
        speech.read(tmp_path, ALL)


def test_nothing_there_and_too_few_words(tmp_path):
    with pytest.raises(InputError, match="data fetch speech-commands"):
        speech.read(tmp_path, ALL)
    make(tmp_path, clips("yes", "no"))
    with pytest.raises(InputError, match="fewer than two words"):
        speech.read(tmp_path, speech.Options(words="yes"))
    with pytest.raises(InputError, match="no clips of 'maybe'"):
        speech.read(tmp_path, speech.Options(words="yes,maybe"))
    with pytest.raises(InputError, match=r"\(mfcc\)"):
        speech.read(tmp_path, speech.Options(source="mfcc"))
