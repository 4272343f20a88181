//! Headers that are nested without end. The driver reads tables within tables by recursion, so that a sender could end every process that
//! receives its message: 128 KiB of brackets overflow the stack. Here they pass byte by byte on their way to the driver; what lies
//! too deep becomes a plain byte array, which is written like a table but for one letter. `stream` lets everything pass through it.

/// A table that lies deeper is not read. The broker's own (`x-death`) lie two deep.
const DEEPEST: usize = 32;

/// The first octet of the frame with a message's properties.
const PROPERTIES: u8 = 2;

/// Class, weight and body size, and two octets of flags.
const BEFORE_PROPERTIES: usize = 14;

/// Flags: which properties there are, in this order.
const CONTENT_TYPE: u16 = 1 << 15;
const CONTENT_ENCODING: u16 = 1 << 14;
const HEADERS: u16 = 1 << 13;
const MORE_FLAGS: u16 = 1;

/// What the next octet is.
#[derive(Clone, Copy)]
enum Next {
    /// One of a frame's first seven, after so many of them: its kind, its channel, its size.
    Head(usize),
    /// One of those before the properties, after so many of them.
    Fixed(usize),
    /// The length of one of so many short strings before the headers.
    ShortString(u32),
    /// One of the four of a length, after so many of them.
    Length(usize, Then),
    /// The first of an element of a table or an array.
    Element,
    /// The type of a value.
    Type,
}

/// What a length is the length of.
#[derive(Clone, Copy)]
enum Then {
    Bytes,
    Table,
    Array,
}

/// Reads frames as they come, in pieces of any size.
pub(crate) struct Shallow {
    next: Next,
    /// A number, as far as it is read.
    number: usize,
    kind: u8,
    /// How much of the frame has passed, and its end.
    at: usize,
    end: usize,
    /// Passes unread.
    skip: usize,
    /// Tables and arrays that are open: where each ends, and whether its elements have names.
    open: Vec<(usize, bool)>,
}

impl Shallow {
    pub(crate) fn new() -> Self {
        Shallow { next: Next::Head(0), number: 0, kind: 0, at: 0, end: 0, skip: 0, open: Vec::new() }
    }

    /// Lets octets pass, and changes what lies too deep.
    pub(crate) fn pass(&mut self, bytes: &mut [u8]) {
        let mut from = 0;
        while from < bytes.len() {
            let unread = self.skip.min(bytes.len() - from);
            if unread == 0 {
                self.at += 1;
                self.read(&mut bytes[from]);
                from += 1;
            } else {
                self.at += unread;
                self.skip -= unread;
                from += unread;
            }
        }
    }

    fn read(&mut self, byte: &mut u8) {
        let value = usize::from(*byte);
        match self.next {
            Next::Head(read) => self.head(read, *byte),
            Next::Fixed(read) => self.fixed(read, value),
            Next::ShortString(count) => {
                self.skip = value;
                self.next = if count > 1 { Next::ShortString(count - 1) } else { Next::Length(0, Then::Table) };
            }
            Next::Length(read, then) => self.length(read, then, value),
            Next::Element => self.element(byte),
            Next::Type => self.of_type(byte),
        }
        // Whatever it says about itself, the frame ends where it ends.
        if !matches!(self.next, Next::Head(_)) && self.at + self.skip >= self.end {
            self.leave();
        }
    }

    /// Passes over the rest of the frame.
    fn leave(&mut self) {
        self.skip = self.end.saturating_sub(self.at);
        (self.next, self.number) = (Next::Head(0), 0);
        self.open.clear();
    }

    fn head(&mut self, read: usize, byte: u8) {
        match read {
            0 => self.kind = byte,
            1 | 2 => {}
            _ => self.number = self.number << 8 | usize::from(byte),
        }
        self.next = Next::Head(read + 1);
        if read == 6 {
            // With the octet that ends it.
            (self.at, self.end) = (0, self.number + 1);
            if self.kind == PROPERTIES {
                (self.next, self.number) = (Next::Fixed(0), 0);
            } else {
                self.leave();
            }
        }
    }

    fn fixed(&mut self, read: usize, value: usize) {
        self.number = (self.number << 8 | value) & 0xffff;
        self.next = Next::Fixed(read + 1);
        if read + 1 == BEFORE_PROPERTIES {
            let flags = u16::try_from(self.number).unwrap_or_default();
            self.number = 0;
            match (flags & (CONTENT_TYPE | CONTENT_ENCODING)).count_ones() {
                _ if flags & HEADERS == 0 || flags & MORE_FLAGS != 0 => self.leave(),
                0 => self.next = Next::Length(0, Then::Table),
                strings => self.next = Next::ShortString(strings),
            }
        }
    }

    fn length(&mut self, read: usize, then: Then, value: usize) {
        self.number = self.number << 8 | value;
        self.next = Next::Length(read + 1, then);
        if read == 3 {
            let length = std::mem::take(&mut self.number);
            match then {
                Then::Bytes => self.skip = length,
                Then::Table => self.open.push((self.at + length, true)),
                Then::Array => self.open.push((self.at + length, false)),
            }
            self.next = Next::Element;
        }
    }

    fn element(&mut self, byte: &mut u8) {
        // This octet is the first one after what has ended.
        while self.open.last().is_some_and(|(end, _)| *end < self.at) {
            self.open.pop();
        }
        match self.open.last() {
            None => self.leave(),
            Some((_, true)) => {
                self.skip = usize::from(*byte);
                self.next = Next::Type;
            }
            Some((_, false)) => self.of_type(byte),
        }
    }

    fn of_type(&mut self, byte: &mut u8) {
        if matches!(byte, b'F' | b'A') && self.open.len() >= DEEPEST {
            *byte = b'x';
        }
        self.next = match byte {
            b'S' | b'x' => Next::Length(0, Then::Bytes),
            b'F' => Next::Length(0, Then::Table),
            b'A' => Next::Length(0, Then::Array),
            _ => Next::Element,
        };
        self.skip = match byte {
            b't' | b'b' | b'B' => 1,
            b's' | b'u' | b'U' => 2,
            b'I' | b'i' | b'f' => 4,
            b'D' => 5,
            b'L' | b'l' | b'd' | b'T' => 8,
            b'V' | b'S' | b'x' | b'F' | b'A' => 0,
            // The driver does not know it either.
            _ => return self.leave(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Value within value, so many times.
    fn nested(kind: u8, times: usize) -> Vec<u8> {
        let mut value = vec![b'V'];
        for _ in 0..times {
            let name: &[u8] = if kind == b'F' { &[1, b'n'] } else { &[] };
            let length = u32::try_from(name.len() + value.len()).unwrap().to_be_bytes();
            value = [&[kind], &length[..], name, &value].concat();
        }
        value
    }

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let size = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&[kind, 0, 1], &size[..], payload, &[0xce]].concat()
    }

    /// The properties of a message with this in its headers, and a delivery mode behind them.
    fn properties(value: &[u8]) -> Vec<u8> {
        let entry = [&[5][..], b"first", b"S\0\0\0\x02hi", &[1], b"h", value].concat();
        let length = u32::try_from(entry.len()).unwrap().to_be_bytes();
        let flags = CONTENT_TYPE | HEADERS | 1 << 12;
        let fixed = [&[0, 60][..], &[0; 10], &flags.to_be_bytes()].concat();
        frame(PROPERTIES, &[&fixed[..], &[4], b"text", &length, &entry, &[2]].concat())
    }

    fn passed(frames: &[u8], piece: usize) -> Vec<u8> {
        let (mut shallow, mut bytes) = (Shallow::new(), frames.to_owned());
        bytes.chunks_mut(piece).for_each(|piece| shallow.pass(piece));
        bytes
    }

    fn changed(before: &[u8], after: &[u8]) -> Vec<(u8, u8)> {
        before.iter().zip(after).filter(|(old, new)| old != new).map(|(old, new)| (*old, *new)).collect()
    }

    #[test]
    fn what_lies_too_deep_becomes_bytes_and_nothing_else_changes() {
        for kind in [b'F', b'A'] {
            for (depth, expected) in [(1, 0), (DEEPEST - 1, 0), (DEEPEST, 1), (20_000, 1)] {
                let message = properties(&nested(kind, depth));
                let all = [frame(1, b"FAFA"), message.clone(), frame(3, &nested(kind, 100)), message].concat();
                for piece in [1, 2, 7, 4096, usize::MAX] {
                    let changes = changed(&all, &passed(&all, piece));
                    assert_eq!(changes, vec![(kind, b'x'); 2 * expected], "{depth} in pieces of {piece}");
                }
            }
        }
    }

    #[test]
    fn the_driver_can_read_what_has_passed() {
        let shown = passed(&properties(&nested(b'A', 20_000)), 1000);
        let table = &shown[7 + BEFORE_PROPERTIES + 5..];
        let (_, headers) = lapin::types::parsing::parse_field_table(table).unwrap();
        assert_eq!(headers.inner().len(), 2);
    }

    #[test]
    fn no_frame_makes_it_lose_its_place() {
        let mut random = fastrand::Rng::with_seed(11);
        let deep = properties(&nested(b'F', DEEPEST));
        for _ in 0..2000 {
            let mut rubbish = properties(&nested(b'A', random.usize(..40)));
            let payload = 7..rubbish.len() - 1;
            for _ in 0..random.usize(1..6) {
                rubbish[random.usize(payload.clone())] = random.u8(..);
            }
            let all = [rubbish.clone(), deep.clone()].concat();
            let shown = passed(&all, random.usize(1..200));
            assert_eq!(changed(&deep, &shown[rubbish.len()..]), [(b'F', b'x')]);
        }
    }
}
