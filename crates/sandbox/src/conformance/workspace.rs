//! Where the files of a workspace come from and go to.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use super::lab::{Failure, Lab, check, text};

super::promises! {
    applied, Nothing: "a directory of the host gets the changes when the sandbox closes, not before";
    replaced, Nothing: "a directory that was deleted and made anew holds only what is new";
    harmless, Nothing: "what is brought out has no setuid bit, and links stay links";
    untouched, Nothing: "a directory in which nothing was changed stays as it was";
    scratch, Nothing: "a scratch workspace leaves nothing behind";
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| error.to_string())
}

fn mode(path: &Path) -> Result<u32, Failure> {
    Ok(fs::symlink_metadata(path)?.permissions().mode() & 0o7777)
}

async fn applied(lab: &Lab<'_>) -> Result<(), Failure> {
    let directory = lab.directory()?;
    for name in ["kept", "modified", "deleted", "renamed", "mode"] {
        fs::write(directory.join(name), format!("{name} before\n"))?;
    }
    fs::create_dir(directory.join("folder"))?;
    fs::write(directory.join("folder/inner"), "inner\n")?;
    fs::set_permissions(directory.join("mode"), fs::Permissions::from_mode(0o600))?;

    let sandbox = lab.over(&directory).await?;
    let seen = text(&sandbox, "cat kept folder/inner && ls | wc -l").await?;
    check!(seen == "kept before\ninner\n6", "the sandbox sees {seen:?}");
    let script = "echo after > modified && rm deleted && mv renamed folder/new-name \
                  && echo new > created && chmod 755 created && mkdir -p a/b && echo deep > a/b/c \
                  && chmod 751 mode && echo more >> folder/inner";
    text(&sandbox, script).await?;
    check!(read(&directory.join("modified")) == "modified before\n", "it was changed too early");
    check!(directory.join("deleted").exists(), "it was deleted too early");
    lab.close(sandbox).await?;

    for (name, wanted) in [
        ("kept", "kept before\n"),
        ("modified", "after\n"),
        ("folder/new-name", "renamed before\n"),
        ("folder/inner", "inner\nmore\n"),
        ("created", "new\n"),
        ("a/b/c", "deep\n"),
        ("mode", "mode before\n"),
    ] {
        let content = read(&directory.join(name));
        check!(content == wanted, "{name} holds {content:?}");
    }
    for name in ["deleted", "renamed"] {
        check!(!directory.join(name).exists(), "{name} is still there");
    }
    check!(mode(&directory.join("created"))? == 0o755, "the mode of a new file was lost");
    check!(mode(&directory.join("mode"))? == 0o751, "a new mode was lost");
    let owner = fs::metadata(&directory)?.uid();
    let new = fs::metadata(directory.join("created"))?.uid();
    check!(owner == new, "the directory belongs to {owner}, a new file to {new}");
    let mut names: Vec<String> = fs::read_dir(&directory)?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.sort_unstable();
    let wanted = ["a", "created", "folder", "kept", "mode", "modified"];
    check!(names == wanted, "the directory holds {names:?}");
    Ok(())
}

async fn replaced(lab: &Lab<'_>) -> Result<(), Failure> {
    let directory = lab.directory()?;
    fs::create_dir_all(directory.join("folder/sub"))?;
    fs::write(directory.join("folder/sub/old"), "old")?;
    fs::create_dir(directory.join("becomes-file"))?;
    fs::write(directory.join("becomes-file/old"), "old")?;
    fs::write(directory.join("becomes-folder"), "old")?;
    let sandbox = lab.over(&directory).await?;
    let script = "rm -r folder && mkdir folder && echo new > folder/new \
                  && rm -r becomes-file && echo file > becomes-file \
                  && rm becomes-folder && mkdir becomes-folder && echo x > becomes-folder/x";
    text(&sandbox, script).await?;
    lab.close(sandbox).await?;
    check!(!directory.join("folder/sub").exists(), "what was deleted came back");
    check!(read(&directory.join("folder/new")) == "new\n", "what is new is missing");
    check!(read(&directory.join("becomes-file")) == "file\n", "the directory is no file");
    check!(read(&directory.join("becomes-folder/x")) == "x\n", "the file is no directory");
    Ok(())
}

async fn harmless(lab: &Lab<'_>) -> Result<(), Failure> {
    let directory = lab.directory()?;
    fs::write(directory.join("target"), "target\n")?;
    symlink("target", directory.join("old-link"))?;
    let sandbox = lab.over(&directory).await?;
    let script = "ln -s target new-link && ln -s /etc/passwd absolute && ln -s nowhere dangling \
                  && cp /bin/true tool && chmod 755 tool && { chmod 6755 tool || true; } \
                  && mkdir shared && { chmod 2777 shared || true; } && mkfifo pipe && cat old-link";
    text(&sandbox, script).await?;
    lab.close(sandbox).await?;
    for (name, wanted) in [
        ("old-link", "target"),
        ("new-link", "target"),
        ("absolute", "/etc/passwd"),
        ("dangling", "nowhere"),
    ] {
        let link = fs::read_link(directory.join(name))?;
        check!(link == Path::new(wanted), "{name} leads to {link:?}");
    }
    let tool = mode(&directory.join("tool"))?;
    check!(tool & 0o7000 == 0 && tool & 0o111 != 0, "the mode of the tool is {tool:o}");
    let shared = mode(&directory.join("shared"))?;
    check!(shared & 0o6000 == 0, "the mode of the directory is {shared:o}");
    Ok(())
}

async fn untouched(lab: &Lab<'_>) -> Result<(), Failure> {
    let directory = lab.directory()?;
    fs::write(directory.join("file"), "content\n")?;
    let before = fs::metadata(directory.join("file"))?;
    let sandbox = lab.over(&directory).await?;
    text(&sandbox, "cat file && ls -la && find .").await?;
    lab.close(sandbox).await?;
    let after = fs::metadata(directory.join("file"))?;
    check!(before.ino() == after.ino(), "the file was replaced");
    check!(before.modified()? == after.modified()?, "the file has another time");
    check!(fs::read_dir(&directory)?.count() == 1, "something was added");
    Ok(())
}

async fn scratch(lab: &Lab<'_>) -> Result<(), Failure> {
    let sandbox = lab.scratch().await?;
    let id = sandbox.id();
    text(&sandbox, "echo x > file; echo x > /tmp/file; echo x > ~/file").await?;
    lab.close(sandbox).await?;
    let next = lab.scratch().await?;
    let found = text(&next, "ls -A /workspace; ls -A /tmp; test ! -e ~/file").await?;
    check!(found.is_empty(), "a new sandbox finds {found:?}");
    let remains = lab.backend.reconcile().await?;
    check!(
        !remains.alive.contains(&id) && !remains.removed.contains(&id),
        "something was left of a sandbox that was closed"
    );
    Ok(())
}
