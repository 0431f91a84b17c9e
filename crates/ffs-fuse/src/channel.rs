//! The ioctl that carries messages between the server of a mount and its clients.

pub(crate) use system::exchange;

/// Bytes of a message.
pub(crate) const MESSAGE: usize = 8192;
/// `_IOWR(0xf5, 1, char[8192])`.
pub(crate) const CONTROL: u32 = 0xe000_f501;

#[cfg(target_os = "linux")]
mod system {
    use super::{CONTROL, MESSAGE};
    use rustix::fd::OwnedFd;
    use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};

    /// The control ioctl.
    struct Message<'a>(&'a mut [u8; MESSAGE]);

    #[allow(unsafe_code)]
    // SAFETY: by the command number the kernel copies `MESSAGE` bytes in and out, and the pointer
    // is to as many bytes, which are borrowed for the call.
    unsafe impl Ioctl for Message<'_> {
        type Output = ();
        const IS_MUTATING: bool = true;

        fn opcode(&self) -> Opcode {
            CONTROL
        }

        fn as_ptr(&mut self) -> *mut std::ffi::c_void {
            self.0.as_mut_ptr().cast()
        }

        unsafe fn output_from_ptr(
            _: IoctlOutput,
            _: *mut std::ffi::c_void,
        ) -> rustix::io::Result<Self::Output> {
            Ok(())
        }
    }

    /// Sends the message `text`, and replaces it by the reply.
    #[allow(unsafe_code)]
    pub(crate) fn exchange(fd: &OwnedFd, text: &mut [u8; MESSAGE]) -> rustix::io::Result<()> {
        // SAFETY: see `Message`.
        unsafe { rustix::ioctl::ioctl(fd, Message(text)) }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::MESSAGE;
    use rustix::fd::OwnedFd;
    use rustix::io::Errno;

    /// Only Linux has mounts of ffs, so no file takes the message.
    pub(crate) fn exchange(_: &OwnedFd, _: &mut [u8; MESSAGE]) -> rustix::io::Result<()> {
        Err(Errno::NOTTY)
    }
}
