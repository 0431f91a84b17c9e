//! Foreign programs that judge a result. Tests of them are skipped where they are not installed.

/// Whether all of `tools` are installed. Prints those that are missing, as skipped.
#[must_use]
pub fn have(tools: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = |tool: &str| std::env::split_paths(&path).any(|dir| dir.join(tool).is_file());
    let missing: Vec<&&str> = tools.iter().filter(|tool| !found(tool)).collect();
    for tool in &missing {
        eprintln!("skipped: {tool} is not installed");
    }
    missing.is_empty()
}
