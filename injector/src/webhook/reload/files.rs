//! Configuration from files, compared at an interval.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use local_files::read_text_file;

use super::Configuration;
use crate::sources::Texts;
use crate::sources::files::{FileError, Files};

impl Files {
    /// Reads all files, which must be regular.
    pub fn load(&self) -> Result<Texts, FileError> {
        self.read(|path| read_text_file(path).map(|text| text.as_str().to_owned()))
    }

    /// Passes the files to `configuration` whenever their content changes, at first from `texts`,
    /// for ever.
    pub async fn watch(
        self,
        mut texts: Texts,
        configuration: Arc<Configuration>,
        every: Duration,
    ) -> Infallible {
        let mut unreadable = false;
        loop {
            tokio::time::sleep(every).await;
            match self.settled().await {
                Ok(read) if read == texts => unreadable = false,
                Ok(read) => {
                    unreadable = false;
                    texts = read;
                    // `offer` logs rejections; the last valid settings stay in use.
                    let _ = configuration.offer(&texts);
                }
                // Logged once, not at every interval.
                Err(error) if !unreadable => {
                    unreadable = true;
                    configuration.refuse(&error);
                }
                Err(_) => {}
            }
        }
    }

    /// Reads until two consecutive reads agree, so that a partly written file is not used.
    async fn settled(&self) -> Result<Texts, FileError> {
        let mut last = self.load()?;
        loop {
            tokio::time::sleep(SETTLE).await;
            let read = self.load()?;
            if read == last {
                return Ok(read);
            }
            last = read;
        }
    }
}

/// Time for which a changed file must stay the same.
const SETTLE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_in_place_of_a_document_is_rejected() {
        let files = Files { mesh_config: Some("/dev/zero".into()), ..Files::default() };
        let error = files.load().unwrap_err().to_string();
        assert_eq!(error, "--meshConfigFile /dev/zero: not a regular file");
    }
}
