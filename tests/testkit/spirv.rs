//! The layouts of structs in shaders, read from the compiled SPIR-V, in which the build script leaves all names.

use std::collections::HashMap;

/// Names and offsets of all fields of a Rust struct, in order. Does not compile when one is forgotten.
#[macro_export]
macro_rules! fields {
    ($type:ident { $($field:ident),+ }) => {{
        let _ = |value: $type| {
            let $type { $($field: _),+ } = value;
        };
        vec![$((stringify!($field).to_owned(), std::mem::offset_of!($type, $field))),+]
    }};
}

/// What the tests want to know of a SPIR-V module.
#[derive(Debug, Default)]
pub struct SpirvModule {
    names: HashMap<u32, String>,
    member_names: HashMap<(u32, u32), String>,
    member_offsets: HashMap<(u32, u32), usize>,
    /// Element type by array type.
    arrays: HashMap<u32, u32>,
    array_strides: HashMap<u32, usize>,
    pub capabilities: Vec<u32>,
    pub invocations: u32,
}

impl SpirvModule {
    /// Reads the few instructions of interest. Numbers are those of the SPIR-V specification, section 3.
    pub fn parse(spirv: &[u8]) -> Self {
        let words: Vec<u32> = spirv
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(words[0], 0x0723_0203, "no SPIR-V");
        let mut module = Self::default();
        let mut rest = &words[5..];
        while let [first, ..] = rest {
            let (instruction, after) = rest.split_at((first >> 16) as usize);
            module.note(first & 0xFFFF, &instruction[1..]);
            rest = after;
        }
        module
    }

    /// Fails if the shader `name` needs more than all devices allow.
    pub fn assert_portable(&self, name: &str) {
        assert!(self.invocations <= 256, "{name}: {} invocations", self.invocations);
        for &capability in &self.capabilities {
            // Shader, ImageQuery aside: no 16-bit storage, no subgroup operations, no dynamic indexing.
            assert_eq!(capability, 1, "{name} needs capability {capability} beyond Shader");
        }
    }

    fn note(&mut self, opcode: u32, operands: &[u32]) {
        match (opcode, operands) {
            (5, [target, name @ ..]) => {
                self.names.insert(*target, text(name));
            }
            (6, [target, member, name @ ..]) => {
                self.member_names.insert((*target, *member), text(name));
            }
            // OpExecutionMode LocalSize
            (16, [_, 17, x, y, z]) => self.invocations = x * y * z,
            (17, [capability]) => self.capabilities.push(*capability),
            // OpTypeRuntimeArray
            (29, [array, element]) => {
                self.arrays.insert(*array, *element);
            }
            // OpDecorate ArrayStride
            (71, [target, 6, stride]) => {
                self.array_strides.insert(*target, *stride as usize);
            }
            // OpMemberDecorate Offset
            (72, [target, member, 35, offset]) => {
                self.member_offsets.insert((*target, *member), *offset as usize);
            }
            _ => {}
        }
    }

    /// Names and offsets of the fields of the one struct of that name that lies in memory.
    pub fn fields(&self, name: &str) -> Vec<(String, usize)> {
        let id = self.id_of_struct(name);
        let field = |member| {
            let offset = self.member_offsets.get(&(id, member))?;
            Some((self.member_names[&(id, member)].clone(), *offset))
        };
        (0..).map_while(field).collect()
    }

    /// Bytes from one element to the next of the one array of that struct.
    pub fn array_stride(&self, name: &str) -> usize {
        let id = self.id_of_struct(name);
        let (array, _) = self.arrays.iter().find(|&(_, &element)| element == id).unwrap();
        self.array_strides[array]
    }

    /// Shaders have a second struct of a name, without offsets, for values in registers.
    fn id_of_struct(&self, name: &str) -> u32 {
        let is_in_memory = |id: &u32| self.member_offsets.contains_key(&(*id, 0));
        let mut ids = self.names.iter().filter(|(_, found)| *found == name).map(|(id, _)| *id);
        ids.find(is_in_memory).unwrap_or_else(|| panic!("no struct {name} with offsets"))
    }
}

/// A string of SPIR-V: bytes in words, with a zero at the end.
fn text(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let len = bytes.iter().position(|&byte| byte == 0).unwrap();
    String::from_utf8(bytes[..len].to_vec()).unwrap()
}
