"""Where CPython 3.9 to 3.12 keep what a stack is made of, on 64-bit machines, as their headers say."""

OFFSETS = """
                        3.9 3.10 3.11 3.12
    interpreters_head    32   32   40   40
    interpreter_next      0    0    0    0
    threads_head          8    8   16   72
    thread_next           8    8    8    8
    thread_interpreter   16   16   16   16
    thread_id           176  176  152  136
    thread_frame         24   24   56   56
    cframe_frame          -    -    8    0
    frame_previous       24   24   48    8
    frame_code           32   32   32    0
    frame_instruction   104   96   56   56
    frame_owner           -    -   69   70
    code_file           104  104  112  112
    code_function       112  112  128  128
    code_first_line      40   40   72   68
    code_lines          120  120  136  136
    code_instructions     -    -  184  192
    object_type           8    8    8    8
    bytes_size           16   16   16   16
    bytes_data           32   32   32   32
    text_length          16   16   16   16
    text_state           32   32   32   32
    text_ascii           48   48   48   40
    text_wide            72   72   72   56
"""
