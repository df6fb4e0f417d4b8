//! Archives of other programs, taken in and unpacked by a real guest.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, Write};
use std::path::Path;
use std::process::Command;

use cofferdam_bundle::{IntakeError, IntakeLimits, IntakeSummary, UploadFormat, intake};
use cofferdam_sandbox::Workspace;

use crate::lab::{Lab, block_on};
use crate::memory::{forget_most_memory, most_memory};

/// Makes the same small project with the programs that people have.
const MAKE: &str = r"
import io, os, sys, tarfile, zipfile
os.makedirs('project/src/deep'); os.makedirs('project/empty')
open('project/run.sh', 'w').write('#!/bin/sh\n'); os.chmod('project/run.sh', 0o755)
open('project/src/naïve ☃.txt', 'w').write('snow')
open('project/src/deep/' + 'n' * 120, 'w').write('long')
open('project/read-only', 'w').write('r'); os.chmod('project/read-only', 0o444)
os.symlink('../run.sh', 'project/src/link')
os.chdir('project')
for name, mode, form in (('pax.tar', 'w', tarfile.PAX_FORMAT), ('gnu.tar.gz', 'w:gz', tarfile.GNU_FORMAT)):
    with tarfile.open('../' + name, mode, format=form) as archive: archive.add('.')
with zipfile.ZipFile('../python.zip', 'w', zipfile.ZIP_DEFLATED) as archive:
    for place, directories, files in os.walk('.'):
        for name in directories + files:
            path = os.path.join(place, name)
            if os.path.islink(path):
                entry = zipfile.ZipInfo(path); entry.create_system = 3
                entry.external_attr = 0o120777 << 16
                archive.writestr(entry, os.readlink(path))
            else: archive.write(path)
# As a stream, whose sizes come behind the content.
class Stream(io.RawIOBase):
    def __init__(self, out): self.out = out
    def writable(self): return True
    def write(self, data): return self.out.write(data)
with open('../stream.zip', 'wb') as out, zipfile.ZipFile(Stream(out), 'w', zipfile.ZIP_DEFLATED) as archive:
    for name in ('run.sh', 'src/naïve ☃.txt', 'read-only', 'empty'): archive.write(name)
    archive.writestr('src/deep/' + 'n' * 120, 'long')
    entry = zipfile.ZipInfo('src/link'); entry.create_system = 3; entry.external_attr = 0o120777 << 16
    archive.writestr(entry, '../run.sh')
";

fn take_in(archive: &Path, out: &Path) -> Result<IntakeSummary, IntakeError> {
    let out = BufWriter::new(File::create(out).unwrap());
    intake(File::open(archive).unwrap(), IntakeLimits::default(), out)
}

#[test]
fn archives_of_other_programs_come_into_a_sandbox_as_they_were() {
    let lab = Lab::new();
    let home = lab.path("made");
    fs::create_dir(&home).unwrap();
    let made =
        Command::new("python3").args(["-I", "-c", MAKE]).current_dir(&home).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let packing = ["-C", "project", "-cf", "gnu.tar", "."];
    assert!(Command::new("tar").args(packing).current_dir(&home).status().unwrap().success());
    let plain = fs::read(home.join("gnu.tar")).unwrap();
    fs::write(home.join("gnu.tar.zst"), zstd::encode_all(plain.as_slice(), 19).unwrap()).unwrap();
    for (name, format) in [
        ("pax.tar", UploadFormat::Tar),
        ("gnu.tar", UploadFormat::Tar),
        ("gnu.tar.gz", UploadFormat::TarGz),
        ("gnu.tar.zst", UploadFormat::TarZst),
        ("python.zip", UploadFormat::Zip),
        ("stream.zip", UploadFormat::Zip),
    ] {
        let taken = lab.path("taken.tar");
        let summary = take_in(&home.join(name), &taken).unwrap();
        assert_eq!((summary.format, summary.files, summary.bytes), (format, 4, 19), "{name}");
        let listed = block_on(async {
            let sandbox = lab.open_with(Workspace::Scratch).await;
            let archive = fs::read(&taken).unwrap();
            let unpacked = sandbox.files().unpack("", archive.as_slice()).await.unwrap();
            assert_eq!(unpacked.skipped, [], "{name}");
            assert_eq!((unpacked.entries, unpacked.bytes), (summary.entries, summary.bytes));
            let script =
                "find . -mindepth 1 -printf '%M %l %P\\n' | sort -k3; cat src/na* src/deep/n*";
            let result = sandbox.run(sandbox.next_call_id(), sandbox.shell(script)).await.unwrap();
            sandbox.close().await.unwrap();
            String::from_utf8(result.stdout.to_vec()).unwrap()
        });
        for line in [
            "drwxr-xr-x  empty\n",
            "-rw-r--r--  read-only\n",
            "-rwxr-xr-x  run.sh\n",
            "lrwxrwxrwx ../run.sh src/link\n",
            "-rw-r--r--  src/naïve ☃.txt\n",
        ] {
            assert!(listed.contains(line), "{name}: {line:?} is not in\n{listed}");
        }
        assert!(listed.ends_with("snowlong"), "{name}: {listed}");
    }
}

#[test]
fn a_large_upload_takes_no_memory() {
    const SIZE: u64 = 400 << 20;
    let mut packed = tempfile::tempfile().unwrap();
    let mut encoder = flate2::write::GzEncoder::new(&mut packed, flate2::Compression::fast());
    let mut header = tar::Header::new_gnu();
    header.set_path("zeros").unwrap();
    header.set_mode(0o644);
    header.set_size(SIZE);
    header.set_cksum();
    encoder.write_all(header.as_bytes()).unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..SIZE >> 20 {
        encoder.write_all(&zeros).unwrap();
    }
    encoder.write_all(&[0; 1024]).unwrap();
    encoder.finish().unwrap();
    packed.rewind().unwrap();
    drop(zeros);
    forget_most_memory();
    let before = most_memory();
    let summary = intake(packed, IntakeLimits::default(), io::sink()).unwrap();
    let grown = most_memory() - before;
    assert_eq!(summary.bytes, SIZE);
    eprintln!("{} KiB more for 400 MiB", grown >> 10);
    // Other tests run beside it.
    assert!(grown < 64 << 20, "{grown} bytes more");
}
