# Homebrew, on macOS and Linux. A release has it with its version and the hash of its source.
class Bsdffs < Formula
  desc "Berkeley Fast File System in user space: images, checks and repairs of UFS volumes"
  homepage "https://github.com/OWNER/ffs"
  url "https://github.com/OWNER/ffs/releases/download/v0.1.0/ffs-0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "BSD-2-Clause"

  depends_on "rust" => :build

  # One program with the laboratory: Homebrew compiles it where it is used, so a second one would
  # cost minutes and save nothing.
  def install
    system "cargo", "build", "--locked", "--profile", "dist", "-p", "bsdffs-cli"
    system "packaging/install", "--no-system", "--prefix", prefix, "target/dist/ffs"
  end

  def caveats
    "ffs mount needs Linux. The other commands work without a mount."
  end

  test do
    system bin/"ffs", "newfs", "-s", "16m", "a.img"
    system bin/"ffs", "fsck", "-n", "-f", "a.img"
  end
end
