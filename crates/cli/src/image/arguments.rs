//! The options of `image`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use cofferdam_images::{Definition, ImageError, Naming, Needs, check_name};

use crate::problem::Problem;

/// What can be done with images.
#[derive(Debug, Subcommand)]
pub(crate) enum ImageVerb {
    /// Make an image: the agent image, or one with what a task needs
    ///
    /// The agent image has Python, Node, Deno, git, compilers, JupyterLab with its
    /// kernels, and a desktop with a browser. It is made by mmdebstrap, without any
    /// container engine, of packages that this machine's apt, pip and npm are configured
    /// to take. An image is named by its content: what is there is not made again.
    Build(Box<BuildArguments>),
    /// Take in an image from an OCI archive or from what `docker save` wrote
    Import(ImportArguments),
    /// Say which images there are, and how large they are
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Remove images whose names have gone to newer ones
    Prune {
        /// Remove every image; sandboxes that use one lose it
        #[arg(long)]
        all: bool,
        /// Print one JSON event a line
        #[arg(long)]
        json: bool,
    },
    /// Remove an image; sandboxes that use it lose it
    Remove {
        /// Its name, or the beginning of its key
        name: String,
        /// Print one JSON event a line
        #[arg(long)]
        json: bool,
    },
}

impl ImageVerb {
    /// Whether programs read what is printed.
    pub(crate) fn json(&self) -> bool {
        match self {
            Self::Build(arguments) => arguments.json,
            Self::Import(arguments) => arguments.json,
            Self::List { json } | Self::Prune { json, .. } | Self::Remove { json, .. } => *json,
        }
    }
}

/// The options of `image build`.
#[derive(Debug, Args)]
pub(crate) struct BuildArguments {
    /// What it is to be called [default: agent, or job-KEY for what a task needs]
    name: Option<String>,
    /// What makes it
    #[arg(long, value_name = "PROGRAM", default_value = "mmdebstrap")]
    pub(crate) with: With,
    /// The image that an engine builds it on [default: Debian's]
    #[arg(long, value_name = "IMAGE")]
    pub(crate) base: Option<String>,
    /// Have what a task needs besides: as requirements.txt, pyproject.toml,
    /// .python-version and apt.txt in its directory say
    #[arg(long = "for", value_name = "DIR")]
    task: Option<PathBuf>,
    /// The version of Python, such as 3.11
    #[arg(long, value_name = "VERSION")]
    python: Option<String>,
    /// Have little else than what was asked for, in place of all that the agent image has
    #[arg(long)]
    lean: bool,
    /// A Debian package that it has besides. Can be given several times
    #[arg(long, value_name = "PACKAGE")]
    apt: Vec<String>,
    /// A Python package that it has besides, as in a requirements file. Can be given
    /// several times
    #[arg(long, value_name = "PACKAGE")]
    pip: Vec<String>,
    /// Only print the Dockerfile that an engine would build it of
    #[arg(long)]
    pub(crate) dockerfile: bool,
    /// Print one JSON event a line, the last one telling how it ended
    #[arg(long, conflicts_with = "dockerfile")]
    pub(crate) json: bool,
}

/// What makes an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum With {
    /// mmdebstrap, without any engine
    Mmdebstrap,
    /// Docker
    Docker,
    /// Podman
    Podman,
}

/// The options of `image import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// The archive
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// What it is to be called; another image of this name loses it [default: as the file,
    /// unless another image is called so]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Print one JSON event a line, the last one telling how it ended
    #[arg(long)]
    pub(crate) json: bool,
}

impl BuildArguments {
    /// What is to be made.
    pub(crate) fn definition(&self) -> Result<Definition, Problem> {
        if self.base.is_some() && self.with == With::Mmdebstrap && !self.dockerfile {
            return Err(Problem::option("--base is for engines: --with docker".to_owned()));
        }
        self.needed().map_err(|error| Problem::image(&error))
    }

    fn needed(&self) -> Result<Definition, ImageError> {
        let mut needs = match &self.task {
            Some(directory) => Needs::of_workspace(directory)?,
            None => Needs::default(),
        };
        needs = needs.and(Needs::new(self.python.as_deref(), &self.apt, &self.pip)?);
        let mut definition = if self.lean { needs.definition()? } else { needs.on_agent()? };
        if let Some(name) = &self.name {
            definition.name.clone_from(name);
        }
        definition.check()?;
        Ok(definition)
    }
}

impl ImportArguments {
    /// What the image is to be called: as the file, as far as that makes a name.
    pub(crate) fn name(&self) -> Result<(String, Naming), Problem> {
        if let Some(name) = &self.name {
            check_name(name).map_err(|error| Problem::image(&error))?;
            return Ok((name.clone(), Naming::Chosen));
        }
        let stem = self.file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let stem = stem.split('.').next().unwrap_or_default();
        let letter = |letter: char| match letter {
            'a'..='z' | '0'..='9' | '-' | '_' => letter,
            _ => '-',
        };
        let name: String = stem.chars().map(letter).take(60).collect();
        let name = match name.trim_matches(['-', '_']) {
            "" => "imported",
            name => name,
        };
        Ok((name.to_owned(), Naming::OfTheFile))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Holder {
        #[command(subcommand)]
        verb: ImageVerb,
    }

    fn parse(words: &[&str]) -> Result<ImageVerb, String> {
        let words = std::iter::once(&"image").chain(words);
        Holder::try_parse_from(words).map(|holder| holder.verb).map_err(|error| error.to_string())
    }

    fn definition(words: &[&str]) -> Result<Definition, Problem> {
        let words: Vec<&str> = std::iter::once("build").chain(words.iter().copied()).collect();
        let Ok(ImageVerb::Build(arguments)) = parse(&words) else { panic!("{words:?}") };
        arguments.definition()
    }

    #[test]
    fn without_a_word_it_is_the_agent_image() {
        assert_eq!(definition(&[]).unwrap(), Definition::agent().unwrap());
        assert_eq!(definition(&["mine"]).unwrap().name, "mine");
    }

    #[test]
    fn what_a_task_needs_is_there_besides() {
        let task = tempfile::tempdir().unwrap();
        std::fs::write(task.path().join("requirements.txt"), "requests==2.34.2\n").unwrap();
        let directory = task.path().to_str().unwrap();
        let words = ["--for", directory, "--apt", "jq", "--python", "3.13"];
        let all = definition(&words).unwrap();
        assert!(all.name.starts_with("job-"), "{}", all.name);
        assert_eq!(all.env["PYTHONPATH"], "/workspace");
        assert_eq!(all.python.as_deref(), Some("3.13"));
        assert!(all.pip.iter().any(|word| word.starts_with("requests")));
        assert!(all.apt.contains(&"jq".to_owned()) && all.apt.contains(&"chromium".to_owned()));
        let lean = definition(&[&words[..], &["--lean", "small"]].concat()).unwrap();
        assert!(!lean.apt.contains(&"chromium".to_owned()) && lean.parts.is_empty());
        assert_eq!(lean.name, "small");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in [&["../x"][..], &["--apt", "-y"], &["--pip", "x y"], &["--base", "x"]] {
            let words: Vec<&str> = std::iter::once("build").chain(words.iter().copied()).collect();
            let refused = match parse(&words) {
                Ok(ImageVerb::Build(arguments)) => arguments.definition().is_err(),
                _ => true,
            };
            assert!(refused, "{words:?}");
        }
        assert!(parse(&["remove"]).is_err());
        assert!(parse(&["import"]).is_err());
    }

    #[test]
    fn an_archive_names_its_image() {
        let name = |words: &[&str]| {
            let words: Vec<&str> = std::iter::once("import").chain(words.iter().copied()).collect();
            let Ok(ImageVerb::Import(arguments)) = parse(&words) else { panic!("{words:?}") };
            arguments.name()
        };
        let of = |name: &str, naming| Ok((name.to_owned(), naming));
        assert_eq!(name(&["/x/Python 3.12.tar.gz"]), of("python-3", Naming::OfTheFile));
        assert_eq!(name(&["..."]), of("imported", Naming::OfTheFile));
        assert_eq!(name(&["x.tar", "--name", "y"]), of("y", Naming::Chosen));
        let refused = name(&["x.tar", "--name", "MyImage"]).unwrap_err();
        assert!(refused.code == "IMG-003" && refused.cause.contains("\"MyImage\""), "{refused:?}");
    }
}
