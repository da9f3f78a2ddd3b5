from pathlib import Path
from types import ModuleType

from harness.shadowing import HOME, PACKAGES, shadows


def made(home: Path, *names: str) -> Path:
    for name in names:
        (home / name).mkdir(parents=True)
        (home / name / "__init__.py").write_text("", encoding="utf-8")
    return home


def module(path: Path) -> ModuleType:
    found = ModuleType(path.name)
    found.__file__ = str(path / "__init__.py")
    return found


def test_our_own_packages_shadow_nothing() -> None:
    assert shadows() == []


def test_a_package_found_first_on_the_path_is_a_shadow(tmp_path: Path) -> None:
    ours, theirs = made(tmp_path / "ours", *PACKAGES), made(tmp_path / "theirs", "runtime")
    found = shadows(ours, {}, [str(theirs), str(ours)])
    assert [(shadow.package, shadow.found) for shadow in found] == [("runtime", theirs / "runtime")]
    assert "--target URL" in str(found[0])


def test_a_package_behind_ours_on_the_path_is_none(tmp_path: Path) -> None:
    ours, theirs = made(tmp_path / "ours", *PACKAGES), made(tmp_path / "theirs", "runtime")
    assert shadows(ours, {}, [str(ours), str(theirs)]) == []


def test_a_folder_without_init_shadows_too_once_it_is_imported(tmp_path: Path) -> None:
    ours = made(tmp_path / "ours", *PACKAGES)
    bare = ModuleType("faults")
    bare.__path__ = [str(tmp_path / "theirs" / "faults")]
    assert [shadow.package for shadow in shadows(ours, {"faults": bare}, [str(ours)])] == ["faults"]


def test_what_was_imported_counts_and_not_what_would_be(tmp_path: Path) -> None:
    ours, theirs = made(tmp_path / "ours", *PACKAGES), made(tmp_path / "theirs", "scenarios")
    loaded = {"scenarios": module(theirs / "scenarios")}
    assert [shadow.package for shadow in shadows(ours, loaded, [str(ours)])] == ["scenarios"]


def test_a_link_to_our_folder_is_ours(tmp_path: Path) -> None:
    ours = made(tmp_path / "ours", *PACKAGES)
    (tmp_path / "link").symlink_to(ours)
    assert shadows(ours, {}, [str(tmp_path / "link")]) == []


def test_all_five_packages_are_watched() -> None:
    assert all((HOME / package / "__init__.py").is_file() for package in PACKAGES)
